// Drogon: drogon PORT.
#include "answer_jsoncpp.h"

#include <drogon/drogon.h>
#include <drogon/version.h>

using namespace drogon;

static std::string parameter(const HttpRequestPtr &request, const std::string &asked) {
	const auto &parameters = request->getParameters();
	auto found = parameters.find(asked);
	return found == parameters.end() ? none() : text(found->second);
}

static std::string parts(const HttpRequestPtr &request, const std::string &asked) {
	MultiPartParser parser;
	if (parser.parse(request) != 0) throw refusal("no form of parts");
	const auto &parameters = parser.getParameters();
	auto found = parameters.find(asked);
	if (found != parameters.end()) return text(found->second);
	for (const auto &file : parser.getFiles()) {
		if (file.getItemName() == asked) return other("{\"file\":" + quote(file.getFileName()) + "}");
	}
	return none();
}

static std::string json(const HttpRequestPtr &request, const std::string &asked) {
	auto document = request->getJsonObject();
	if (!document) throw refusal("no JSON");
	return answerOf(*document, asked);
}

int main(int, char **arguments) {
	std::puts("Drogon " DROGON_VERSION);
	std::fflush(stdout);
	for (auto [way, read] : {std::pair{"/parameter", parameter}, {"/parts", parts}, {"/json", json}}) {
		app().registerHandler(way, [read = read](const HttpRequestPtr &request, std::function<void(const HttpResponsePtr &)> &&callback) {
			auto response = HttpResponse::newHttpResponse();
			try {
				response->setBody(read(request, request->getHeader("x-asked")));
			} catch (const std::exception &error) {
				response->setStatusCode(k400BadRequest);
				response->setBody(std::string("refused: ") + error.what());
			}
			callback(response);
		}, {Post});
	}
	app().setLogLevel(trantor::Logger::kFatal).setClientMaxBodySize(8 << 20).setUploadPath("/tmp/drogon");
	app().addListener("127.0.0.1", static_cast<uint16_t>(std::stoi(arguments[1]))).setThreadNum(2).run();
}
