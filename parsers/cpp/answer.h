// What a way of reading answers: the value that it has for the asked name.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

inline std::string quote(const std::string &text) {
	std::string quoted = "\"";
	for (unsigned char c : text) {
		if (c == '"' || c == '\\') {
			quoted += '\\';
			quoted += static_cast<char>(c);
		} else if (c < 0x20 || c == 0x7f) {
			char escaped[8];
			std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
			quoted += escaped;
		} else {
			quoted += static_cast<char>(c);
		}
	}
	return quoted + '"';
}

inline std::string none() { return "none"; }
inline std::string text(const std::string &value) { return "text " + quote(value); }
inline std::string other(const std::string &value) { return "other " + value; }
inline std::string number(const std::string &value) { return "number " + value; }
inline std::string number(int64_t value) { return number(std::to_string(value)); }
inline std::string number(uint64_t value) { return number(std::to_string(value)); }

// The shortest digits that are this number again.
inline std::string number(double value) {
	char digits[64];
	auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
	return number(std::string(digits, end));
}

// The names on a path.
inline std::vector<std::string> names(const std::string &asked) {
	if (asked == "user.email") return {"user", "email"};
	return {asked};
}

struct refusal : std::runtime_error {
	using std::runtime_error::runtime_error;
};
