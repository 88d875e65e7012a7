// Parsers of JSON that applications in C and C++ call: documents PORT. The way is the parser.
#include "answer_jsoncpp.h"

#include <cjson/cJSON.h>
#include <functional>
#include <jansson.h>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <simdjson.h>
#include <sstream>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>
#include <yajl/yajl_version.h>
#ifdef NEW_RELEASE
#include <boost/json/src.hpp>
#include <boost/version.hpp>
#include <yyjson.h>
#endif

using std::string;

// Of jsonc.cpp: json-c and Jansson have types of the same names.
string readJSONC(const string &body, const string &asked);
string readJSONCStrict(const string &body, const string &asked);
const char *versionOfJSONC();

static string readNlohmann(const string &body, const string &asked) {
	auto document = nlohmann::json::parse(body);
	const nlohmann::json *at = &document;
	for (const auto &name : names(asked)) {
		if (!at->is_object() || !at->contains(name)) return none();
		at = &(*at)[name];
	}
	if (at->is_null()) return none();
	if (at->is_string()) return text(at->get<string>());
	if (at->is_number_unsigned()) return number(at->get<uint64_t>());
	if (at->is_number_integer()) return number(at->get<int64_t>());
	if (at->is_number()) return number(at->get<double>());
	return other(at->dump());
}

template <unsigned flags> static string readRapid(const string &body, const string &asked) {
	rapidjson::Document document;
	document.Parse<flags>(body.data(), body.size());
	if (document.HasParseError()) throw refusal("error " + std::to_string(document.GetParseError()));
	const rapidjson::Value *at = &document;
	for (const auto &name : names(asked)) {
		if (!at->IsObject()) return none();
		auto member = at->FindMember(name.c_str());
		if (member == at->MemberEnd()) return none();
		at = &member->value;
	}
	if (at->IsNull()) return none();
	if (at->IsString()) return text(string(at->GetString(), at->GetStringLength()));
	if (at->IsInt64()) return number(static_cast<int64_t>(at->GetInt64()));
	if (at->IsUint64()) return number(static_cast<uint64_t>(at->GetUint64()));
	if (at->IsNumber()) return number(at->GetDouble());
	rapidjson::StringBuffer buffer;
	rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
	at->Accept(writer);
	return other(buffer.GetString());
}

static string readJansson(const string &body, const string &asked) {
	json_error_t error;
	std::unique_ptr<json_t, void (*)(json_t *)> document(json_loadb(body.data(), body.size(), 0, &error), json_decref);
	if (!document) throw refusal(error.text);
	json_t *at = document.get();
	for (const auto &name : names(asked)) at = json_object_get(at, name.c_str());
	if (!at || json_is_null(at)) return none();
	if (json_is_string(at)) return text(string(json_string_value(at), json_string_length(at)));
	if (json_is_integer(at)) return number(static_cast<int64_t>(json_integer_value(at)));
	if (json_is_real(at)) return number(json_real_value(at));
	char *dumped = json_dumps(at, JSON_ENCODE_ANY);
	string value = dumped;
	std::free(dumped);
	return other(value);
}

using finder = cJSON *(*)(const cJSON *, const char *);

// The text of a request as a string of C, as most callers have it: it ends at a NUL.
template <finder find> static string readCJSON(const string &body, const string &asked) {
	std::unique_ptr<cJSON, void (*)(cJSON *)> document(cJSON_Parse(body.c_str()), cJSON_Delete);
	if (!document) throw refusal("no JSON");
	cJSON *at = document.get();
	for (const auto &name : names(asked)) at = find(at, name.c_str());
	if (!at || cJSON_IsNull(at)) return none();
	if (cJSON_IsString(at)) return text(at->valuestring);
	if (cJSON_IsNumber(at)) return number(at->valuedouble);
	char *printed = cJSON_PrintUnformatted(at);
	string value = printed ? printed : "?";
	cJSON_free(printed);
	return other(value);
}

static string readJSONCpp(const string &body, const string &asked) {
	Json::CharReaderBuilder builder;
	Json::Value document;
	string errors;
	std::istringstream stream(body);
	if (!Json::parseFromStream(builder, stream, &document, &errors)) throw refusal(errors.substr(0, errors.find('\n')));
	return answerOf(document, asked);
}

static string readYajl(const string &body, const string &asked) {
	char error[200] = "";
	std::unique_ptr<yajl_val_s, void (*)(yajl_val)> document(yajl_tree_parse(body.c_str(), error, sizeof error), yajl_tree_free);
	if (!document) throw refusal(string(error).substr(0, string(error).find('\n')));
	const char *path[3] = {};
	auto path_names = names(asked);
	for (size_t i = 0; i < path_names.size(); i++) path[i] = path_names[i].c_str();
	yajl_val at = yajl_tree_get(document.get(), path, yajl_t_any);
	if (!at || YAJL_IS_NULL(at)) return none();
	if (YAJL_IS_STRING(at)) return text(YAJL_GET_STRING(at));
	if (YAJL_IS_INTEGER(at)) return number(static_cast<int64_t>(YAJL_GET_INTEGER(at)));
	if (YAJL_IS_DOUBLE(at)) return number(YAJL_GET_DOUBLE(at));
	return other(YAJL_IS_TRUE(at) ? "true" : YAJL_IS_FALSE(at) ? "false" : YAJL_IS_ARRAY(at) ? "[...]" : "{...}");
}

static string readSimdDOM(const string &body, const string &asked) {
	simdjson::dom::parser parser;
	simdjson::dom::element at = parser.parse(body.data(), body.size());
	for (const auto &name : names(asked)) {
		if (!at.is_object() || at[name].get(at) != simdjson::SUCCESS) return none();
	}
	if (at.is_null()) return none();
	if (at.is_string()) return text(string(std::string_view(at.get_string())));
	if (at.is_int64()) return number(int64_t(at.get_int64()));
	if (at.is_uint64()) return number(uint64_t(at.get_uint64()));
	if (at.is_double()) return number(double(at.get_double()));
	return other(simdjson::minify(at));
}

// The parser that reads no more than it is asked for.
static string readSimdOnDemand(const string &body, const string &asked) {
	simdjson::ondemand::parser parser;
	simdjson::padded_string padded(body);
	simdjson::ondemand::document document = parser.iterate(padded);
	simdjson::ondemand::value at;
	bool first = true;
	for (const auto &name : names(asked)) {
		auto error = first ? document[name].get(at) : at[name].get(at);
		if (error == simdjson::NO_SUCH_FIELD || error == simdjson::INCORRECT_TYPE) return none();
		if (error) throw simdjson::simdjson_error(error);
		first = false;
	}
	switch (simdjson::ondemand::json_type(at.type())) {
	case simdjson::ondemand::json_type::null: return at.is_null() ? none() : throw refusal("no null");
	case simdjson::ondemand::json_type::string: return text(string(std::string_view(at.get_string())));
	case simdjson::ondemand::json_type::number: {
		simdjson::ondemand::number n = at.get_number();
		if (n.is_int64()) return number(int64_t(n.get_int64()));
		if (n.is_uint64()) return number(uint64_t(n.get_uint64()));
		return number(n.get_double());
	}
	case simdjson::ondemand::json_type::boolean: return other(bool(at.get_bool()) ? "true" : "false");
	default: return other(string(std::string_view(simdjson::to_json_string(at))));
	}
}

#ifdef NEW_RELEASE
static string readBoost(const string &body, const string &asked) {
	auto document = boost::json::parse(body);
	const boost::json::value *at = &document;
	for (const auto &name : names(asked)) {
		auto object = at->if_object();
		if (!object) return none();
		at = object->if_contains(name);
		if (!at) return none();
	}
	if (at->is_null()) return none();
	if (auto value = at->if_string()) return text(string(value->data(), value->size()));
	if (auto value = at->if_int64()) return number(int64_t(*value));
	if (auto value = at->if_uint64()) return number(uint64_t(*value));
	if (auto value = at->if_double()) return number(*value);
	return other(boost::json::serialize(*at));
}

static string readYyjson(const string &body, const string &asked) {
	std::unique_ptr<yyjson_doc, void (*)(yyjson_doc *)> document(yyjson_read(body.data(), body.size(), 0), yyjson_doc_free);
	if (!document) throw refusal("no JSON");
	yyjson_val *at = yyjson_doc_get_root(document.get());
	for (const auto &name : names(asked)) at = yyjson_obj_get(at, name.c_str());
	if (!at || yyjson_is_null(at)) return none();
	if (yyjson_is_str(at)) return text(string(yyjson_get_str(at), yyjson_get_len(at)));
	if (yyjson_is_sint(at)) return number(static_cast<int64_t>(yyjson_get_sint(at)));
	if (yyjson_is_uint(at)) return number(static_cast<uint64_t>(yyjson_get_uint(at)));
	if (yyjson_is_real(at)) return number(yyjson_get_real(at));
	char *written = yyjson_val_write(at, 0, nullptr);
	string value = written ? written : "?";
	std::free(written);
	return other(value);
}
#endif

static const std::map<string, std::function<string(const string &, const string &)>> readers = {
	{"nlohmann", readNlohmann},
	{"rapidjson", readRapid<rapidjson::kParseDefaultFlags>},
	{"jansson", readJansson},
	{"cjson", readCJSON<cJSON_GetObjectItem>},
	{"cjson-exact", readCJSON<cJSON_GetObjectItemCaseSensitive>},
	{"json-c", readJSONC},
	{"json-c-strict", readJSONCStrict},
	{"jsoncpp", readJSONCpp},
	{"yajl", readYajl},
	{"simdjson", readSimdDOM},
	{"simdjson-ondemand", readSimdOnDemand},
#ifdef NEW_RELEASE
	{"boost", readBoost},
	{"yyjson", readYyjson},
#endif
};

// The value of a header field, of a request's head.
static string field(const string &head, const char *name) {
	std::istringstream lines(head);
	for (string line; std::getline(lines, line);) {
		auto colon = line.find(':');
		if (colon == string::npos || strcasecmp(line.substr(0, colon).c_str(), name) != 0) continue;
		auto begin = line.find_first_not_of(' ', colon + 1);
		return begin == string::npos ? "" : line.substr(begin, line.find_last_not_of("\r") + 1 - begin);
	}
	return "";
}

static void serve(int connection) {
	string request;
	char piece[1 << 16];
	size_t head = string::npos;
	for (size_t wanted = 1; request.size() < wanted;) {
		ssize_t got = read(connection, piece, sizeof piece);
		if (got <= 0) return;
		request.append(piece, static_cast<size_t>(got));
		if (head == string::npos) head = request.find("\r\n\r\n");
		wanted = head == string::npos ? request.size() + 1 : head + 4 + std::stoul("0" + field(request.substr(0, head), "Content-Length"));
	}
	auto way = request.substr(6, request.find_first_of("? ", 6) - 6); // behind "POST /"
	string status = "200 OK", answer;
	try {
		answer = readers.at(way)(request.substr(head + 4), field(request.substr(0, head), "X-Asked"));
	} catch (const std::exception &error) {
		status = "400 Bad Request";
		answer = string("refused: ") + error.what();
	}
	string response = "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(answer.size()) + "\r\nConnection: close\r\n\r\n" + answer;
	for (size_t sent = 0; sent < response.size();) {
		ssize_t wrote = write(connection, response.data() + sent, response.size() - sent);
		if (wrote <= 0) return;
		sent += static_cast<size_t>(wrote);
	}
}

int main(int, char **arguments) {
	std::ostringstream versions;
	versions << "nlohmann/json " << NLOHMANN_JSON_VERSION_MAJOR << '.' << NLOHMANN_JSON_VERSION_MINOR << '.' << NLOHMANN_JSON_VERSION_PATCH
		<< ", RapidJSON " << RAPIDJSON_VERSION_STRING << ", Jansson " << JANSSON_VERSION << ", cJSON " << cJSON_Version()
		<< ", json-c " << versionOfJSONC() << ", JsonCpp " << JSONCPP_VERSION_STRING << ", YAJL " << YAJL_MAJOR << '.' << YAJL_MINOR << '.'
		<< YAJL_MICRO << ", simdjson " << simdjson::SIMDJSON_VERSION_MAJOR << '.'
		<< simdjson::SIMDJSON_VERSION_MINOR << '.' << simdjson::SIMDJSON_VERSION_REVISION;
#ifdef NEW_RELEASE
	versions << ", Boost " << BOOST_VERSION / 100000 << '.' << BOOST_VERSION / 100 % 1000 << ", yyjson " << YYJSON_VERSION_STRING;
#endif
	std::puts(versions.str().c_str());
	std::fflush(stdout);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	sockaddr_in address{};
	address.sin_family = AF_INET;
	address.sin_port = htons(static_cast<uint16_t>(std::stoi(arguments[1])));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 || listen(listener, 16) != 0) return 1;
	for (;;) {
		int connection = accept(listener, nullptr, nullptr);
		if (connection < 0) return 1;
		serve(connection);
		close(connection);
	}
}
