// What applications in nginx's JavaScript read.
import querystring from 'querystring';

function answer(value) {
	if (value === undefined || value === null) return 'none';
	if (typeof value === 'string') return 'text ' + JSON.stringify(value);
	if (typeof value === 'number') return 'number ' + value;
	return 'other ' + JSON.stringify(value);
}

function serve(r, read) {
	try {
		r.return(200, answer(read(r.headersIn['X-Asked'])));
	} catch (error) {
		r.return(400, 'refused: ' + error);
	}
}

function form(r) {
	serve(r, asked => querystring.parse(r.requestText || '')[asked]);
}

function json(r) {
	serve(r, asked => {
		const document = JSON.parse(r.requestText);
		if (asked !== 'user.email') return document[asked];
		return document.user && document.user.email;
	});
}

export default { form, json };
