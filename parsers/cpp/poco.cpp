// POCO's server, its form and its JSON: poco PORT.
#include "answer.h"

#include <Poco/JSON/Object.h>
#include <Poco/JSON/Parser.h>
#include <Poco/JSON/Stringifier.h>
#include <Poco/Net/HTMLForm.h>
#include <Poco/Net/HTTPRequestHandler.h>
#include <Poco/Net/HTTPRequestHandlerFactory.h>
#include <Poco/Net/HTTPServer.h>
#include <Poco/Net/HTTPServerParams.h>
#include <Poco/Net/HTTPServerRequest.h>
#include <Poco/Net/HTTPServerResponse.h>
#include <Poco/Net/PartHandler.h>
#include <Poco/Net/ServerSocket.h>
#include <Poco/StreamCopier.h>
#include <Poco/Version.h>
#include <mutex>
#include <sstream>

using namespace Poco::Net;
using Poco::Dynamic::Var;
using std::string;

struct Files : PartHandler {
	void handlePart(const MessageHeader &, std::istream &stream) override {
		string content;
		Poco::StreamCopier::copyToString(stream, content);
	}
};

static string json(const string &body, const string &asked) {
	Var at = Poco::JSON::Parser().parse(body);
	for (const auto &name : names(asked)) {
		if (at.type() != typeid(Poco::JSON::Object::Ptr)) return none();
		at = at.extract<Poco::JSON::Object::Ptr>()->get(name);
	}
	if (at.isEmpty()) return none();
	if (at.isString()) return text(at.extract<string>());
	if (at.isBoolean()) return other(at.convert<bool>() ? "true" : "false");
	if (at.isInteger()) return at.isSigned() ? number(int64_t(at.convert<Poco::Int64>())) : number(uint64_t(at.convert<Poco::UInt64>()));
	if (at.isNumeric()) return number(at.convert<double>());
	std::ostringstream written;
	Poco::JSON::Stringifier::stringify(at, written);
	return other(written.str());
}

struct Handler : HTTPRequestHandler {
	void handleRequest(HTTPServerRequest &request, HTTPServerResponse &response) override {
		string asked = request.get("X-Asked"), answer;
		try {
			if (request.getURI().compare(0, 5, "/json") == 0) {
				string body;
				Poco::StreamCopier::copyToString(request.stream(), body);
				answer = json(body, asked);
			} else {
				Files files;
				HTMLForm form(request, request.stream(), files);
				answer = form.has(asked) ? text(form.get(asked)) : none();
			}
		} catch (const Poco::Exception &error) {
			response.setStatus(HTTPResponse::HTTP_BAD_REQUEST);
			answer = "refused: " + error.displayText();
		}
		response.setContentLength(static_cast<std::streamsize>(answer.size()));
		response.setKeepAlive(false);
		response.send() << answer;
	}
};

struct Factory : HTTPRequestHandlerFactory {
	HTTPRequestHandler *createRequestHandler(const HTTPServerRequest &) override { return new Handler; }
};

int main(int, char **arguments) {
	std::printf("POCO %d.%d.%d\n", POCO_VERSION >> 24, POCO_VERSION >> 16 & 255, POCO_VERSION >> 8 & 255);
	std::fflush(stdout);
	ServerSocket socket(SocketAddress("127.0.0.1", static_cast<Poco::UInt16>(std::stoi(arguments[1]))));
	HTTPServer server(new Factory, socket, new HTTPServerParams);
	server.start();
	std::mutex held;
	held.lock();
	held.lock(); // for ever
}
