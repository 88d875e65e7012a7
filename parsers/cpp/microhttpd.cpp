// GNU libmicrohttpd and its processor of forms, which ulfius has too: microhttpd PORT.
#include "answer.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <strings.h>
#include <unistd.h>

struct Read {
	MHD_PostProcessor *processor = nullptr;
	bool begun = false, failed = false, here = false, file = false;
	std::string asked, value;
};

// The first field of the name counts; its value comes in pieces, the first one at the offset 0.
static MHD_Result take(void *data, MHD_ValueKind, const char *key, const char *filename, const char *, const char *,
		const char *piece, uint64_t offset, size_t size) {
	auto read = static_cast<Read *>(data);
	if (!key || read->asked != key || (read->here && offset != read->value.size())) return MHD_YES;
	if (read->here && offset == 0) return MHD_YES;
	read->here = true;
	read->file = filename != nullptr;
	if (piece) read->value.append(piece, size);
	return MHD_YES;
}

static MHD_Result respond(MHD_Connection *connection, unsigned status, std::string answer) {
	MHD_Response *response = MHD_create_response_from_buffer(answer.size(), answer.data(), MHD_RESPMEM_MUST_COPY);
	MHD_Result result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static MHD_Result handle(void *, MHD_Connection *connection, const char *, const char *, const char *, const char *body,
		size_t *size, void **state) {
	auto read = static_cast<Read *>(*state);
	if (!read) {
		read = new Read;
		*state = read;
		read->asked = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Asked");
		read->processor = MHD_create_post_processor(connection, 1 << 16, take, read);
		return MHD_YES;
	}
	if (*size > 0) {
		if (read->processor && MHD_post_process(read->processor, body, *size) != MHD_YES) read->failed = true;
		*size = 0;
		return MHD_YES;
	}
	if (!read->processor) return respond(connection, 400, "refused: no form");
	if (MHD_destroy_post_processor(read->processor) != MHD_YES) read->failed = true;
	read->processor = nullptr;
	if (read->failed) return respond(connection, 400, "refused: the form is broken");
	if (read->file) return respond(connection, 200, other("{\"file\":" + quote(read->value) + "}"));
	return respond(connection, 200, read->here ? text(read->value) : none());
}

static void end(void *, MHD_Connection *, void **state, MHD_RequestTerminationCode) {
	auto read = static_cast<Read *>(*state);
	if (read && read->processor) MHD_destroy_post_processor(read->processor);
	delete read;
	*state = nullptr;
}

int main(int, char **arguments) {
	std::printf("GNU libmicrohttpd %s\n", MHD_get_version());
	std::fflush(stdout);
	sockaddr_in address{};
	address.sin_family = AF_INET;
	address.sin_port = htons(static_cast<uint16_t>(std::stoi(arguments[1])));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, nullptr, nullptr, handle, nullptr,
		MHD_OPTION_NOTIFY_COMPLETED, end, nullptr, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_END);
	if (!daemon) return 1;
	for (;;) pause();
}
