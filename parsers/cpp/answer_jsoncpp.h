// What JsonCpp has for the asked name. Drogon reads documents by it.
#pragma once

#include "answer.h"

#include <json/json.h>

inline std::string answerOf(const Json::Value &document, const std::string &asked) {
	const Json::Value *at = &document;
	for (const auto &name : names(asked)) {
		if (!at->isObject() || !at->isMember(name)) return none();
		at = &(*at)[name];
	}
	if (at->isNull()) return none();
	if (at->isString()) return text(at->asString());
	if (at->type() == Json::intValue) return number(static_cast<int64_t>(at->asInt64()));
	if (at->type() == Json::uintValue) return number(static_cast<uint64_t>(at->asUInt64()));
	if (at->isNumeric()) return number(at->asDouble());
	Json::StreamWriterBuilder writer;
	writer["indentation"] = "";
	return other(Json::writeString(writer, *at));
}
