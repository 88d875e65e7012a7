// json-c, for documents.cpp.
#include "answer.h"

#include <json-c/json.h>
#include <memory>

using std::string;

static string read(const string &body, const string &asked, int flags) {
	std::unique_ptr<json_tokener, void (*)(json_tokener *)> tokener(json_tokener_new(), json_tokener_free);
	json_tokener_set_flags(tokener.get(), flags);
	json_object *document = json_tokener_parse_ex(tokener.get(), body.data(), static_cast<int>(body.size()));
	if (json_tokener_get_error(tokener.get()) != json_tokener_success) {
		throw refusal(json_tokener_error_desc(json_tokener_get_error(tokener.get())));
	}
	std::unique_ptr<json_object, int (*)(json_object *)> owner(document, json_object_put);
	json_object *at = document;
	for (const auto &name : names(asked)) {
		if (!json_object_is_type(at, json_type_object) || !json_object_object_get_ex(at, name.c_str(), &at)) return none();
	}
	switch (json_object_get_type(at)) {
	case json_type_null: return none();
	case json_type_string: return text(string(json_object_get_string(at), json_object_get_string_len(at)));
	case json_type_int: return number(static_cast<int64_t>(json_object_get_int64(at)));
	case json_type_double: return number(json_object_get_double(at));
	default: return other(json_object_to_json_string(at));
	}
}

string readJSONC(const string &body, const string &asked) { return read(body, asked, 0); }

string readJSONCStrict(const string &body, const string &asked) { return read(body, asked, JSON_TOKENER_STRICT); }

const char *versionOfJSONC() { return json_c_version(); }
