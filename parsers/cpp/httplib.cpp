// cpp-httplib: httplib PORT.
#include "answer.h"

#include <httplib.h>

int main(int, char **arguments) {
	httplib::Server server;
	server.Post("/param", [](const httplib::Request &request, httplib::Response &response) {
		auto asked = request.get_header_value("X-Asked");
		std::string answer = none();
		if (request.is_multipart_form_data()) {
#ifdef NEW_RELEASE
			if (request.form.has_field(asked)) {
				answer = text(request.form.get_field(asked));
			} else if (request.form.has_file(asked)) {
				answer = other("{\"file\":" + quote(request.form.get_file(asked).filename) + "}");
			}
#else
			if (request.has_file(asked)) {
				auto part = request.get_file_value(asked);
				answer = part.filename.empty() ? text(part.content) : other("{\"file\":" + quote(part.filename) + "}");
			}
#endif
		}
		if (answer == none() && request.has_param(asked)) answer = text(request.get_param_value(asked));
		response.set_content(answer, "text/plain");
	});
	std::puts("cpp-httplib " CPPHTTPLIB_VERSION);
	std::fflush(stdout);
	return server.listen("127.0.0.1", std::stoi(arguments[1])) ? 0 : 1;
}
