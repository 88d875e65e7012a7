package main

import (
	"strconv"
	"strings"
)

// spellings are names that some parser may take for the asked one, beside the name itself.
var spellings = map[string][]string{
	"email": {
		"email", "Email", "EMAIL", "eMa\u0131l", "EMA\u0130L", "\uff45mail", "e\u0301mail", "ema\u00efl", "emai\u217c",
		"email[]", "email[0]", "email[1]", "email[x]", "email[", "email]", "[email]", "[email", "]email", "[[email", "[]email", "[email][]",
		"email[[]]", "email[]]", "email[]x", "email[][x]", "email[x]y", "email[[", "email]]", "email]x", "email[x", "email[ ]", "email []",
		".email", "email.", "email..", "email.x", "email.[x]", "email[.x]", "..email", "email.0",
		"email_", "_email", "email__x", "email_x", "email_confirmation", "emailx", "xemail", "email-x", "email:x", "email/x", "email|x",
		" email", "email ", "  email  ", "email x", "\temail", "email\t", "email\n", "\nemail", "email\r\n", "email\v", "email\f",
		"\x1cemail",
		"email\x00", "email\x00x", "\x00email", "em\x00ail", "email\x01", "\x01email", "email\x7f",
		"\u00a0email", "email\u00a0", "\u2003email", "email\u3000", "\u0085email", "\u200bemail", "email\u200d", "em\u00adail",
		"\ufeffemail", "email\ufeff", "?email", "??email", "#email", "&email", "=email", "email=", "email=x", ";email", "email;", "x;email",
		"email*", "email*0", "*email", "email%", "email%5B%5D", "%65mail", "e%6dail", "email%00", "email+", "+email", "email%20",
		"email'", "'email'", "email\"", "email\\", "\\email", "email,", "{email}", "(email)", "email{}", "$email", "@email", "!email",
		"email~", "email:string", "<email>", "email\xc3", "\xc3email", "email\xff",
	},
	"user_email": {
		"user_email", "user.email", "user email", "user[email", "user[email]", "user]email", "user-email", "user__email", "User_Email",
		"user_email[]", "user\temail", "user\x00email", "user\u00a0email", "userEmail", "user+email", "user%5Femail", "user[_email",
		"user._email", "user [email", "user[email][x]", "user.email.x", "user[email.x]", " user_email", "user_email_x", "user", "email",
		"user\\email", "user/email", "user:email", "user[email x",
	},
	"user[email]": {
		"user[email]", "user.email", "user_email", "user[email][]", "user[email][0]", "user[email][x]", "user[email]x", "user[email]]",
		"user[email]]x", "user[email]0", "user[[email]]", "user][email]", "user[ email]", "user[email ]", "user [email]", " user[email]",
		"user[email] ", "user[email", "user[]email", "user[][email]", "[user][email]", "[]user[email]", "user[email].x", "user[email].",
		"user[email]_x", "user[Email]", "User[email]", "user['email']", `user["email"]`, "user", "user[]", "user[0][email]", "user[0]",
		"user.email[]", "user[email]\x00x", "user[email\x00]", "user\x00[email]", "user%5Bemail%5D", "user[e.mail]", "user->email",
		"user:email", "user/email", "user{email}", "user(email)", "user[password]", "user[email_confirmation]", "user[email]\u00a0",
		"\ufeffuser[email]", "user[\ufeffemail]", "user[email][password]", "user.[email]", "user[.email]", "user_[email]", "[user[email]]",
		"user[user][email]", "user[email]&", "user[email]=", "user[+email]", "user%00[email]",
	},
}

// fieldNames returns forms with each spelling, alone and beside the asked name; those of email also in the query.
func fieldNames() (all []sample) {
	for _, asked := range []string{"email", "user_email", "user[email]"} {
		for _, spelling := range spellings[asked] {
			all = append(all, spelled(asked, spelling)...)
		}
	}
	return all
}

func spelled(asked, spelling string) (all []sample) {
	name := "name " + strconv.QuoteToASCII(spelling)
	if asked != "email" {
		name += " for " + asked
	}
	escaped := escape(spelling)
	all = append(all,
		urlencoded(name+", escaped, alone", asked, escaped+"=b"),
		urlencoded(name+", escaped, behind", asked, asked+"=a&"+escaped+"=b"))
	if escaped != spelling && isPrintable(spelling) {
		all = append(all, urlencoded(name+", raw, before", asked, spelling+"=b&"+asked+"=a"))
	}
	if !strings.Contains(spelling, `"`) {
		all = append(all,
			multipart(name+", alone", asked, part(spelling, "b")+end))
	}
	if asked != "email" {
		return all
	}
	if !strings.Contains(spelling, `"`) {
		all = append(all, multipart(name+", before", asked, part(spelling, "b")+part(asked, "a")+end))
	}
	beside := urlencoded(name+", in the query", asked, asked+"=a")
	beside.query = escaped + "=b"
	return append(all, beside)
}
