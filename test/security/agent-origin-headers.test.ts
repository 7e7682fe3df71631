import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, test } from "node:test";
import { startTestServer } from "../support/server.ts";
import { deployEchoAgent, seenBy } from "./echo-agent.ts";

const pierhead = await startTestServer();
after(() => pierhead[Symbol.asyncDispose]());
const agent = await deployEchoAgent(pierhead, "hostile");
const slug = agent.url.split("/d/")[1] ?? "";
const prefix = `/d/${slug}`;

/** Sends a request and returns the raw lines of the response head. */
function head(path: string, lines: string[] = [], host = "127.0.0.1"): Promise<string[]> {
  const { port } = new URL(pierhead.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), "127.0.0.1");
    let text = "";
    socket.on("error", reject).on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (!text.includes("\r\n\r\n")) return;
      resolve(text.split("\r\n\r\n", 1)[0]?.split("\r\n") ?? []);
      socket.destroy();
    });
    const own = lines.some((line) => /^connection:/i.test(line)) ? [] : ["Connection: close"];
    socket.write([`GET ${path} HTTP/1.1`, `Host: ${host}`, ...own, ...lines, "", ""].join("\r\n"));
  });
}

const answerPath = (headers: object) => `/answer?headers=${encodeURIComponent(JSON.stringify(headers))}`;
const cookiesIn = (lines: string[]) =>
  lines.flatMap((line) => (/^set-cookie: /i.test(line) ? [line.slice("set-cookie: ".length)] : []));
const names = (lines: string[]) => lines.slice(1).map((line) => line.split(":", 1)[0]?.toLowerCase() ?? "");

const ofOrigin = {
  "clear-site-data": '"*"',
  nel: '{"report_to":"x","max_age":1}',
  "report-to": '{"group":"x"}',
  "reporting-endpoints": 'x="https://evil.invalid/"',
  "strict-transport-security": "max-age=31536000; includeSubDomains",
  "alt-svc": 'h2="evil.invalid:443"',
  "service-worker-allowed": "/",
  "public-key-pins": "x",
  "accept-ch": "Sec-CH-UA-Full-Version-List",
  "critical-ch": "Sec-CH-UA",
  "use-as-dictionary": 'match="/*"',
  "speculation-rules": '"/rules.json"',
  "sec-session-registration": "(ES256)",
  "set-login": "logged-out",
  "origin-trial": "x",
  "header-of-next-year": "1",
};

test("no response header of an agent changes the origin that it shares with the console", async () => {
  const seen = names(await head(prefix + answerPath(ofOrigin)));
  assert.deepEqual(
    Object.keys(ofOrigin).filter((name) => seen.includes(name)),
    [],
  );
  const lines = Object.entries(ofOrigin).map(([name, value]) => `${name}: ${value}`);
  const upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="];
  const switched = await head(`${prefix}/ws?headers=${encodeURIComponent(JSON.stringify(lines))}`, upgrade);
  assert.match(switched[0] ?? "", / 101 /);
  assert.deepEqual(
    Object.keys(ofOrigin).filter((name) => names(switched).includes(name)),
    [],
  );
});

test("headers about the response itself still pass", async () => {
  const passing = {
    "x-own": "1",
    "access-control-allow-origin": "https://app.example",
    "access-control-expose-headers": "x-own",
    "cache-control": "max-age=60",
    etag: '"1"',
    vary: "origin",
    "content-language": "en",
    "content-disposition": "inline",
    "www-authenticate": 'Bearer realm="agent"',
    "retry-after": "1",
    "mcp-session-id": "1",
    link: '</next>; rel="next"',
    "content-location": "/threads/1",
  };
  const lines = await head(prefix + answerPath(passing));
  for (const [name, value] of Object.entries(passing)) assert.ok(lines.includes(`${name}: ${value}`), name);
});

test("no cookie of an agent leaves the agent's own path and host", async () => {
  const set = [
    "plain=1",
    "root=1; Path=/; HttpOnly",
    "other=1; path=/d/another/; PATH = /",
    "console=1; Path=/v2",
    "wide=1; Domain=127.0.0.1; Path=/; domain=.localhost",
    "kept=1; Path=/d/SLUG/deep; SameSite=Lax".replace("SLUG", slug),
    "neighbour=1; Path=/d/SLUGx".replace("SLUG", slug),
    "relative=1; Path=x",
  ];
  const cookies = cookiesIn(await head(prefix + answerPath({ "set-cookie": set })));
  assert.deepEqual(cookies, [
    `plain=1; Path=${prefix}`,
    `root=1; HttpOnly; Path=${prefix}`,
    `other=1; Path=${prefix}`,
    `console=1; Path=${prefix}/v2`,
    `wide=1; Path=${prefix}`,
    `kept=1; SameSite=Lax; Path=${prefix}/deep`,
    `neighbour=1; Path=${prefix}/d/${slug}x`,
    `relative=1; Path=${prefix}`,
  ]);
  const byName = await head(answerPath({ "set-cookie": ["a=1; Domain=localhost; Path=/"] }), [], `${slug}.localhost`);
  assert.deepEqual(cookiesIn(byName), ["a=1; Path=/"]);
});

test("no agent can set a cookie of the console, and none without a name", async () => {
  const set = [
    ...["pierhead_session=x; Path=/", "__Host-pierhead_session=x; Path=/; Secure", "pierhead_sign_in=x"],
    ...[
      "=pierhead_session=x",
      " = pierhead_session=x",
      "=__Host-pierhead_session=x",
      "pierhead_session",
      ";",
      "=",
      "a b=1",
    ],
  ];
  const byPath = cookiesIn(await head(prefix + answerPath({ "set-cookie": set })));
  assert.deepEqual(byPath, [
    `d.${slug}.pierhead_session=x; Path=${prefix}`,
    `d.${slug}.__Host-pierhead_session=x; Secure; Path=${prefix}`,
    `d.${slug}.pierhead_sign_in=x; Path=${prefix}`,
  ]);
  const byName = cookiesIn(await head(answerPath({ "set-cookie": set }), [], `${slug}.localhost`));
  assert.deepEqual(byName, []);
  const cleared = await head(answerPath({ "clear-site-data": '"cookies"' }), [], `${slug}.localhost`);
  assert.ok(!names(cleared).includes("clear-site-data"));
});

test("sessions of an agent work: it gets its cookies back under its own names, and no others of Pierhead", async () => {
  const set = ["sid=1; Path=/", "__Host-csrf=2; Path=/; Secure", "pierhead_session=3"];
  const pairs = cookiesIn(await head(prefix + answerPath({ "set-cookie": set }))).map((text) => text.split(";", 1)[0]);
  const others = ["pierhead_session=secret-a", "__Host-pierhead_session=secret-b", "d.another.sid=secret-c"];
  await head(`${prefix}/mine`, [`Cookie: ${[...pairs, ...others].join("; ")}`]);
  const seen = await seenBy(agent.url);
  assert.ok(seen.includes("sid=1; __Host-csrf=2; pierhead_session=3"), seen);
  assert.ok(!seen.includes("secret-"));
});

const signIn = async () => {
  const answer = await fetch(`${pierhead.url}/v2/session`, {
    method: "POST",
    headers: { "x-pierhead-console": "1" },
    body: JSON.stringify({ api_key: pierhead.apiKey }),
  });
  return answer.headers.getSetCookie()[0]?.split(";", 1)[0] ?? "";
};
const withCookies = (cookie: string) =>
  fetch(`${pierhead.url}/v2/session`, { headers: { cookie, "x-pierhead-console": "1" } });

test("a second session cookie is never used, and does not lock its user out", async () => {
  const [own, forged] = [await signIn(), await signIn()];
  assert.equal((await withCookies(own)).status, 200);
  for (const cookie of [`${forged}; ${own}`, `${own}; ${forged}`, `${own}; pierhead_session=`, `${own}; ${own}`]) {
    const answer = await withCookies(cookie);
    assert.equal(answer.status, 401, cookie);
    const expired = answer.headers.getSetCookie();
    for (const place of ["Path=/;", "Path=/v2;", "Path=/v2/session/;"]) {
      for (const name of ["pierhead_session=;", "=x;"]) {
        // The console's own cookie stays: a planted one that this request did not carry would be alone with the next.
        const isOwn = name === "pierhead_session=;" && place === "Path=/;";
        assert.equal(expired.includes(`${name} ${place} Max-Age=0`), !isOwn, `${name} ${place}`);
      }
    }
  }
});

test("the response to too many cookies deletes them", async () => {
  const lines = await head("/", [`Cookie: ${"a=b; ".repeat(4_000)}`]);
  assert.match(lines[0] ?? "", / 431 /);
  assert.ok(lines.includes('clear-site-data: "cookies"'));
});
