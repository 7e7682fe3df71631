import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { isAllowedRecipient, recipientOf, sendMail } from "../../src/integrations/mail.ts";
import { readMail } from "../../src/server/mail-settings.ts";
import { mailOf, slackBody } from "../../src/webhooks/channels.ts";
import { eventually } from "../support/eventually.ts";
import { newCertificate } from "../support/tls-proxy.ts";

const payload = (type: string, data: object) =>
  JSON.stringify({
    type,
    timestamp: "2026-11-20T10:04:11.120Z",
    data: { id: "7", type, tenant_id: "t-1", deployment_id: "d-1", deployment_name: "support<bot>", data },
  });
const firing = payload("alert.firing", {
  alert_id: "a-1",
  rule: "crash_looping",
  message: "It exits with code 1 & <3>.",
});
const resolved = payload("alert.resolved", {
  alert_id: "a-1",
  rule: "crash_looping",
  message: "It exits with code 1.",
});
const console = "https://pierhead.example.org";

interface Received {
  text: string;
  to: string[];
  isEncrypted: boolean;
  user: unknown;
}

/** Starts a real SMTP server. */
async function startSmtp(options: SMTPServerOptions) {
  const received: Received[] = [];
  const server = new SMTPServer({
    ...options,
    logger: false,
    onAuth: ({ username, password }, _session, done) =>
      password === "s3cret" ? done(null, { user: username }) : done(new Error("wrong password")),
    onRcptTo: ({ address }, _session, done) =>
      done(address.startsWith("gone") ? Object.assign(new Error("no such mailbox"), { responseCode: 550 }) : null),
    onData: (stream, session, done) => {
      void text(stream).then((body) => {
        const to = session.envelope.rcptTo.map(({ address }) => address);
        received.push({ text: body, to, isEncrypted: session.secure, user: session.user });
        done();
      });
    },
  });
  server.on("error", () => {});
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  const { port } = server.server.address() as AddressInfo;
  return { received, port, [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())) };
}

/** Starts a mail server whose greeting never ends. */
async function startTarpit(sockets: Set<Socket>) {
  const server = createServer((socket) => {
    sockets.add(socket);
    const drip = setInterval(() => socket.write("220-wait\r\n"), 20);
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(drip);
      sockets.delete(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { port, [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())) };
}

const signal = new AbortController().signal;
const mailTo = (to: string, body = firing) => mailOf(body, { to, deliveryId: "delivery-1", consoleUrl: console });

test("sends a mail over STARTTLS with a password, and a reply to it at the end of the alert", async () => {
  const { key, cert } = newCertificate();
  await using smtp = await startSmtp({ key, cert });
  const settings = {
    url: `smtp://ops%40example.org:s3cret@127.0.0.1:${smtp.port}`,
    ...{ from: "alerts@example.org", domains: ["example.org"], ca: cert },
  };
  const first = await sendMail(settings, mailTo("ops@example.org"), signal);
  assert.equal(first.code, 250, first.text);
  assert.equal((await sendMail(settings, mailTo("ops@example.org", resolved), signal)).code, 250);
  const [mail, answer] = smtp.received;
  assert.deepEqual([mail?.to, mail?.isEncrypted, mail?.user], [["ops@example.org"], true, "ops@example.org"]);
  assert.match(mail?.text ?? "", /^Subject: \[Pierhead\] support<bot>: crash looping/m);
  assert.match(mail?.text ?? "", /^Message-ID: <alert-a-1@pierhead\.invalid>/m);
  assert.match(mail?.text ?? "", /It exits with code 1 & <3>\./);
  assert.match(mail?.text ?? "", /https:\/\/pierhead\.example\.org\/o\/t-1\/host\/deployments\/d-1/);
  assert.match(answer?.text ?? "", /^In-Reply-To: <alert-a-1@pierhead\.invalid>/m);

  const refused = await sendMail(settings, mailTo("gone@example.org"), signal);
  assert.equal(refused.code, 550, refused.text);
  const wrong = await sendMail(
    { ...settings, url: settings.url.replace("s3cret", "guess") },
    mailTo("a@example.org"),
    signal,
  );
  assert.equal(wrong.code, 535, wrong.text);
  assert.doesNotMatch(wrong.text, /guess/);
});

test("sends neither password nor mail to a server that offers no STARTTLS", async () => {
  await using smtp = await startSmtp({ disabledCommands: ["STARTTLS"], authOptional: true });
  const url = `smtp://ops:s3cret@127.0.0.1:${smtp.port}`;
  const { cert: ca } = newCertificate();
  const answer = await sendMail({ url, from: "a@example.org", domains: ["*"], ca }, mailTo("ops@example.org"), signal);
  assert.notEqual(answer.code, 250);
  assert.deepEqual(smtp.received, []);
  const silent = await sendMail({ url: "smtp://127.0.0.1:1", from: "a@b.org", domains: [] }, mailTo("a@b.org"), signal);
  assert.deepEqual([silent.code, /cannot be reached/.test(silent.text)], [null, true]);
});

test("escapes the text of an event for Slack", () => {
  const { text: shown } = JSON.parse(slackBody(firing, console));
  assert.equal(
    shown,
    ":red_circle: *support&lt;bot&gt;: crash looping*\nIt exits with code 1 &amp; &lt;3&gt;.\n" +
      "<https://pierhead.example.org/o/t-1/host/deployments/d-1|Open in Pierhead>",
  );
  assert.match(
    JSON.parse(slackBody(resolved, null)).text,
    /^:large_green_circle: \*.* \(resolved\)\*\nIt was: It exits/,
  );
  const trial = JSON.stringify({ type: "webhook.test", timestamp: "", data: { webhook_id: "w" } });
  assert.match(JSON.parse(slackBody(trial, console)).text, /test message/);
});

test("names the key or the server of an alert that concerns no deployment, and links to the alerts", () => {
  const data = { alert_id: "a-2", rule: "key_expiry", subject: "ci", message: "The API key ci expires soon." };
  const about = { id: "8", type: "alert.firing", tenant_id: "t-1", deployment_id: null, deployment_name: null, data };
  const body = JSON.stringify({ type: "alert.firing", timestamp: "2026-11-20T10:04:11.120Z", data: about });
  assert.equal(
    JSON.parse(slackBody(body, console)).text,
    ":red_circle: *ci: the API key expires soon*\nThe API key ci expires soon.\n" +
      "<https://pierhead.example.org/host/alerts|Open in Pierhead>",
  );
  const mail = mailTo("ops@example.org", body);
  assert.equal(mail.subject, "[Pierhead] ci: the API key expires soon");
  assert.match(mail.text, /Console: https:\/\/pierhead\.example\.org\/host\/alerts/);
});

test("lets no text of an agent notify a channel or show a picture, and fits the limits of chats", () => {
  const loud = payload("alert.firing", { rule: "failed", message: `@everyone @channel <!here> ${"x".repeat(5_000)}` });
  const body = JSON.parse(slackBody(loud, console));
  assert.doesNotMatch(body.text, /@(everyone|channel)|<!/);
  assert.ok(body.text.length < 2_000, `${body.text.length} characters`);
  assert.deepEqual([body.unfurl_links, body.unfurl_media], [false, false]);
});

test("ends a mail when the server stops, and when the mail server keeps the connection busy for too long", async () => {
  const sockets = new Set<Socket>();
  await using tarpit = await startTarpit(sockets);
  const settings = { url: `smtp://127.0.0.1:${tarpit.port}`, from: "a@example.org", domains: ["*"] };
  const stopping = new AbortController();
  const sending = sendMail(settings, mailTo("ops@example.org"), stopping.signal);
  await eventually(
    () => sockets.size,
    (size) => size === 1,
  );
  stopping.abort(new Error("the server is stopping"));
  await assert.rejects(sending, /the server is stopping/);
  const late = await sendMail(settings, mailTo("ops@example.org"), signal, 200);
  assert.deepEqual([late.code, /did not take the mail within 0\.2 s/.test(late.text)], [null, true]);
  await eventually(
    () => sockets.size,
    (size) => size === 0,
  );
});

test("accepts only one recipient, of an allowed domain, and no headers", () => {
  assert.equal(recipientOf("mailto:ops@example.org"), "ops@example.org");
  for (const bad of [
    "ops@example.org,b@x.org",
    "ops@example.org?cc=b@x.org",
    "ops%0Abcc@example.org",
    "a b@x.org",
    "",
  ]) {
    assert.equal(recipientOf(`mailto:${bad}`), null, bad);
  }
  assert.equal(isAllowedRecipient("ops@Example.ORG", ["example.org"]), true);
  assert.equal(isAllowedRecipient("ops@evil.org", ["example.org"]), false);
  assert.equal(isAllowedRecipient("ops@evil.org", ["*"]), true);
});

test("requires a sender for mails, and allows recipients of its domain by default", () => {
  const read = (smtpUrl?: string, smtpFrom?: string, smtpDomains?: string) =>
    readMail({ smtpUrl, smtpFrom, smtpDomains });
  assert.equal(read(), null);
  assert.deepEqual(read("smtp://mail.example.org", "alerts@example.org")?.domains, ["example.org"]);
  assert.deepEqual(read("smtps://mail.example.org", "alerts@example.org", "a.org, B.org")?.domains, ["a.org", "b.org"]);
  assert.throws(() => read("smtp://mail.example.org"), /PIERHEAD_SMTP_FROM/);
  assert.throws(() => read("http://mail.example.org", "a@b.org"), /PIERHEAD_SMTP_URL/);
  const unusable = ["smtp://ops:100%x@mail.example.org", "smtp:mail.example.org"];
  for (const url of unusable) {
    assert.throws(
      () => read(url, "a@b.org"),
      ({ message }) => /PIERHEAD_SMTP_URL needs a host/.test(message) && !/100%x/.test(message),
    );
  }
});
