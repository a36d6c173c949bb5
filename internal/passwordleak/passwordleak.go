// Package passwordleak generates store URLs with a password in every place where a
// user may have put it, and finds that password in output. It is for tests.
package passwordleak

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
)

// The password, and the words before and after the separator in a password that
// contains one. First is a number, which may be mistaken for a port.
const (
	Password = "c4n4ry"
	First    = "48151"
	Second   = "k1w1b1rd"
)

// templates are URLs that lead nowhere. SCHEME stands for a scheme, PW for the
// password, HOST for a host on which nothing listens.
var templates = []string{
	// Missing or extra slashes.
	"SCHEME:/u:PW@h", "SCHEME:u:PW@h", "SCHEME:///u:PW@h/db", "SCHEME:////u:PW@h/db", "SCHEME:PW@h", "SCHEME:/PW@h:1",
	"SCHEME//u:PW@h/db", "//u:PW@h/db", "/u:PW@h", "://u:PW@h", "SCHEME:PW",
	// No scheme, a repeated scheme, an unknown scheme.
	"u:PW@h", "u:PW@h:6379/0", "PW@h:6379", ":PW@h", "SCHEME://SCHEME://u:PW@h/db", "no-SCHEME://u:PW@h/db",
	"no-SCHEME:u:PW@h", "no-SCHEME:/u:PW@h/db", "no-SCHEME:///u:PW@h/db", "no-SCHEME://h/PW?password=PW",
	"u:PW", "SCHEME%3A%2F%2Fu%3APW%40h",
	// Syntax of other libraries and languages.
	"u:PW@tcp(h:3306)/db", "u:PW@unix(/tmp/mysql.sock)/db", "SCHEME://u:PW@tcp(h:3306)/db", "SCHEME://u:PW@tcp(h)/db", "SCHEME:u:PW@tcp(h:3306)/db",
	"host=h user=u password=PW dbname=db", "SCHEME:host=h password=PW", "SCHEME://host=h password=PW", "host=h:5432 password='PW'", "SCHEME://host=h;password=PW",
	"jdbc:SCHEME://h/db?user=u&password=PW", "SCHEME://h/db;user=u;password=PW", "SCHEME://HOST/db,password=PW", "Server=h;Uid=u;Pwd=PW;",
	// Passwords that contain URL separators.
	"SCHEME://u:48151/PW@h/db", "SCHEME://u:48151?PW@h/db", "SCHEME://u:48151#PW@h/db", "SCHEME://u:48151/PW?k1w1b1rd@h/db",
	"SCHEME://u:48151?k=PW@h/db", "SCHEME://u:48151?PW=k1w1b1rd@h/db", "SCHEME://u:k1w1b1rd@PW/48151@h/db", "SCHEME://u:k1w1b1rd@48151?PW@h",
	"SCHEME://u:k1w1b1rd/PW@h/db", "SCHEME://u:k1w1b1rd?PW@h/db", "SCHEME://u:k1w1b1rd#PW@h/db", "SCHEME://u:PW@k1w1b1rd@h:x/db",
	"SCHEME://u:k1w1b1rd%PW@h/db", "SCHEME://u:%zzPW@h/db", "SCHEME://u:[PW]@h/db", "SCHEME://u:k1w1b1rd[PW@h/db", "SCHEME://u:PW]@h/db", "SCHEME://[u:PW@h/db",
	"SCHEME://u:k1w1b1rd PW@h/db", "SCHEME://u:\tPW@h/db", "SCHEME://u:\x1bPW@h/db", "SCHEME://u:PW\n@h/db", "SCHEME://u:PW\\@h/db", "SCHEME://u:k1w1b1rd\"PW@h/db",
	"SCHEME://u:k1w1b1rd<PW>@h/db", "SCHEME://u:PW\u00a0k1w1b1rd^@h/db", "SCHEME://u:48151:PW@h:x/db",
	// Invalid hosts, and several hosts.
	"SCHEME://u:PW", "SCHEME://u:PW/db", "SCHEME://u:PW@", "SCHEME://u:PW@/", "SCHEME://u:PW@:port/db", "SCHEME://u:PW@h:99999999/db", "SCHEME://u:PW@[::1/db",
	"SCHEME://u:PW@h:1:2/db", "SCHEME://u:PW@h!k1w1b1rd/db", "SCHEME://u%3APW%40h/db", "SCHEME://u:PW@h1,u:PW@h2:x/db", "SCHEME://u:PW@h1,SCHEME://u:PW@h2",
	"SCHEME://h1,SCHEME://u:PW@h2", "SCHEME://u:PW@h1;h2/db", "SCHEME://u:PW@h1 h2/db", "SCHEME://HOST,u:PW", "SCHEME://u:PW@,/db", "SCHEME://u:PW@HOST,,HOST:1/db",
	// Surrounding characters.
	" SCHEME://u:PW@h/db", "SCHEME://u:PW@h:x/db ", "\"SCHEME://u:PW@h/db\"", "'SCHEME://u:PW@h/db'", "PAWL_STORE=SCHEME://u:PW@h/db", "\ufeffSCHEME://u:PW@h/db", "<SCHEME://u:PW@h/db>",
	"SCHEME://u:PW@h/db\nSCHEME://u:PW@h2/db", "# PW\nSCHEME://u:PW@h/db", "SCHEME://u:PW@h:x/db\r\n",
	// Parameters.
	"SCHEME://u:PW@HOST/db?k1w1b1rd&ttl=5s", "SCHEME://HOST/db?password:PW", "SCHEME://HOST/db?password%3DPW", "SCHEME://HOST/db?PW", "SCHEME://HOST/db?passwort=a&PW=1",
	"SCHEME://HOST/db?pwd=k1w1b1rd%26PW&colour=1", "SCHEME://HOST/db?ttl=PW", "SCHEME://HOST/db?ttl=5s?password=PW", "SCHEME://HOST/db?ttl=5s;password=PW", "SCHEME://u:PW@HOST/db?%zz",
	"SCHEME://u:PW@HOST/db?colour=PW", "SCHEME://HOST/db?tls-key-password=PW", "SCHEME://HOST/db?pass=PW", "SCHEME://HOST/db?password=PW&x=%zz", "SCHEME://HOST/db?PW=&password=k1w1b1rd",
	"SCHEME://HOST/db?prefix=%01PW", "SCHEME://HOST/db?prefix=%01?password=PW", "SCHEME://HOST/db?tls=PW", "SCHEME://HOST/db?timeout=PW", "SCHEME://HOST/db?table_prefix=PW!",
	"SCHEME://HOST/db?tls=yes&tls-ca=PW", "SCHEME://HOST/db?tls=yes&tls-cert=PW&tls-key=PW", "SCHEME://HOST/db?tls=on&ca=PW", "SCHEME://HOST/db?tls=on&cert=PW&key=PW",
	"SCHEME://HOST/db?sslmode=PW", "SCHEME://HOST/db?sslrootcert=PW", "SCHEME://HOST/db?sslcert=PW&sslkey=PW&sslpassword=PW", "SCHEME://HOST/db?connect_timeout=PW", "SCHEME://HOST/db?port=PW",
	"SCHEME://HOST/db?pool_max_conns=PW", "SCHEME://HOST/db?host=h?password=PW", "SCHEME://HOST/db?host=u:PW%40h", "SCHEME://HOST/db?dbname=db?password=PW", "SCHEME://HOST/db?user=u:PW",
	"SCHEME://HOST/db?service=PW", "SCHEME://HOST/db?passfile=PW&sslmode=PW", "SCHEME://HOST/db?socket=/tmp/x?password=PW", "SCHEME://HOST/db?socket=u:PW%40h", "SCHEME://HOST/db?max_conns=PW",
	"SCHEME://HOST/db?multi_primary=PW", "SCHEME://HOST/db?wait=PW", "SCHEME://HOST/db?wait=1&wait-timeout=PW", "SCHEME://HOST/db?scripts=PW", "SCHEME://HOST/db?allow-eviction=PW",
	"SCHEME://HOST/db?sentinel-auth=PW", "SCHEME://HOST/db?max-ttl=PW", "SCHEME://HOST/db?acl=PW", "SCHEME://HOST/db?creds=PW", "SCHEME://HOST/db?nkey=PW", "SCHEME://HOST/db?replicas=PW", "SCHEME://HOST/db?mode=PW", "SCHEME://HOST/db?network=PW",
	// Paths.
	"SCHEME://HOST/u:PW@h", "SCHEME://HOST/PW/@line", "SCHEME://HOST/%2e%2e/PW", "SCHEME://HOST//PW", "SCHEME://u:PW@HOST/x", "SCHEME://HOST/db%3Fpassword=PW", "SCHEME://HOST/zookeeper/PW",
	"SCHEME://HOST/u:PW%40h", "SCHEME:///u:PW%40h/db", "SCHEME:u:PW%40h", "SCHEME:\\\\u:PW@h", "SCHEME://u:PW\uff20h/db", "SCHEME://PW\uff20h/db",
	// Valid URLs of hosts on which nothing listens.
	"SCHEME://u:PW@HOST", "SCHEME://:PW@HOST/0", "SCHEME://PW@HOST/db", "SCHEME://u:PW@HOST/db", "SCHEME://u:k1w1b1rd%2FPW@HOST/db", "SCHEME://u:k1w1b1rd%0APW@HOST/db", "SCHEME://u:PW@HOST,127.0.0.1:2,127.0.0.1:3/db",
	"SCHEME://u:PW@HOST,127.0.0.1:2,127.0.0.1:3", "SCHEME://HOST/db?password=PW", "SCHEME://HOST/db?sslpassword=PW",
}

// URLs returns every template for a scheme.
func URLs(scheme string) []string {
	var all []string
	fill := strings.NewReplacer("SCHEME", scheme, "PW", Password, "HOST", "127.0.0.1:1")
	for _, shape := range templates {
		all = append(all, fill.Replace(shape))
	}
	return all
}

// Find returns the part of the password that a text contains, unchanged or encoded;
// "" if none.
func Find(text string) string {
	lower := strings.ToLower(text)
	for _, form := range ignoringCase {
		if strings.Contains(lower, form) {
			return form
		}
	}
	for _, form := range asWritten {
		if strings.Contains(text, form) {
			return form
		}
	}
	return ""
}

// The encodings of the words, separated by whether case matters: lower case if it
// does not. They are computed once because tests check thousands of texts.
var ignoringCase, asWritten = forms()

func forms() (anyCase, asWritten []string) {
	for _, word := range []string{Password, First, Second} {
		anyCase = append(anyCase, word, hex.EncodeToString([]byte(word)), percent(word))
		if form := strings.ToLower(url.QueryEscape(word)); form != word {
			anyCase = append(anyCase, form)
		}
		asWritten = append(asWritten, base64s(word)...)
	}
	return anyCase, asWritten
}

func percent(word string) string {
	var b strings.Builder
	for _, c := range []byte(word) {
		b.WriteString("%" + hex.EncodeToString([]byte{c}))
	}
	return b.String()
}

// base64s returns the base64 encodings of the word at every offset.
func base64s(word string) (all []string) {
	for before := range 3 {
		from, to := (8*before+5)/6, 8*(before+len(word))/6 // the digits that depend on the word alone
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + word + "xxx"))
		all = append(all, coded[from:to])
	}
	return all
}
