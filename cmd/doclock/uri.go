package main

import (
	"cmp"
	"errors"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// errNoServer: nothing says where the server is.
var errNoServer = errors.New("no server is named")

// serverURI finds the URI. It never comes from an argument with a password.
func (c *cli) serverURI() (string, error) {
	switch {
	case c.uri != "" && c.uriFile != "":
		return "", usage("--uri and --uri-file are both given; give one")
	case c.uri != "":
		c.secrets = secretsOf(c.uri)
		if len(c.secrets) > 0 {
			return "", usage("--uri has a password, which ps shows to everybody and a shell keeps in its history; set MONGODB_URI, or write it to a file for --uri-file")
		}
		return c.uri, nil
	case c.uriFile != "":
		text, err := os.ReadFile(c.uriFile)
		if err != nil {
			return "", usage("the file of --uri-file can't be read: %v", err)
		}
		uri := strings.TrimSpace(string(text))
		c.secrets = secretsOf(uri)
		if uri == "" || strings.ContainsAny(uri, "\n\r") {
			return "", usage("the file %s of --uri-file doesn't have one line, a URI", c.uriFile)
		}
		return uri, nil
	}
	uri := cmp.Or(os.Getenv("DOCLOCK_URI"), os.Getenv("MONGODB_URI"))
	c.secrets = secretsOf(uri)
	if uri == "" {
		return "", &ending{code: exitUsage, err: errNoServer}
	}
	return uri, nil
}

// clientOptions parses the URI. A URI that can't be parsed may have its password
// anywhere, so the driver's error is printed only if it has no secret.
func (c *cli) clientOptions() (*options.ClientOptions, error) {
	uri, err := c.serverURI()
	if err != nil {
		return nil, err
	}
	opts := options.Client().ApplyURI(uri)
	if err := opts.Validate(); err != nil {
		why := err.Error()
		if slices.ContainsFunc(c.secrets, func(secret string) bool { return strings.Contains(why, secret) }) {
			why = "the reason can't be shown without a password in it"
		}
		return nil, usage("the server's URI can't be used: %s. A password's special characters are escaped: %% is %%25, / %%2F, : %%3A, @ %%40", why)
	}
	if opts.AppName == nil {
		opts.SetAppName("doclock")
	}
	return opts, nil
}

// secretsOf are the parts of a URI that nobody may see: as they are written, as
// they are meant, and as errors quote them. What is between :// and the last @ is
// the user and the password, also where the password has characters that it should
// have escaped.
func secretsOf(uri string) []string {
	var secrets []string
	add := func(secret string) {
		for _, s := range []string{secret, unescaped(secret)} {
			if s != "" {
				secrets = append(secrets, s, strings.Trim(strconv.Quote(s), `"`))
			}
		}
	}
	_, rest, _ := strings.Cut(uri, "://")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if _, password, ok := strings.Cut(rest[:at], ":"); ok {
			add(password)
		}
	}
	_, query, _ := strings.Cut(uri, "?")
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		switch strings.ToLower(key) {
		case "tlscertificatekeyfilepassword", "sslclientcertificatekeypassword", "proxypassword", "password":
			add(value)
		case "authmechanismproperties":
			for property := range strings.SplitSeq(escape.Replace(value), ",") {
				if name, token, _ := strings.Cut(property, ":"); strings.EqualFold(name, "AWS_SESSION_TOKEN") {
					add(token)
				}
			}
		}
	}
	return secrets
}

// escape undoes what may be written for the separators of a URI's properties.
var escape = strings.NewReplacer("%3A", ":", "%3a", ":", "%2C", ",", "%2c", ",")

func unescaped(s string) string {
	plain, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return plain
}

// redacted is a text without the secrets of the URI. The driver has no reason to
// speak of one after it has read the URI. A shorter secret stays: its place would
// be seen in each text that has the same letters.
func (c *cli) redacted(text string) string {
	const shortest = 5
	for _, secret := range c.secrets {
		if len(secret) >= shortest {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
