import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../src/server/config.ts";
import { replicaUrlOf } from "../../src/server/listen.ts";
import { readListenerConfig } from "../../src/server/listener-config.ts";

test("accepts the public address and the base path with and without trailing slashes", () => {
  for (const [given, taken] of [
    ["https://pierhead.example.org/", "https://pierhead.example.org"],
    ["https://example.org/pierhead//", "https://example.org/pierhead"],
    ["http://pierhead.example.org:8124", "http://pierhead.example.org:8124"],
  ]) {
    assert.equal(readConfig({ PIERHEAD_PUBLIC_URL: given }).publicUrl, taken);
  }
  for (const [given, taken] of [
    ["/pierhead/", "/pierhead"],
    ["/a/b", "/a/b"],
    ["/", ""],
    ["", ""],
  ]) {
    assert.equal(readConfig({ BASE_PATH: given }).basePath, taken);
  }
});

test("rejects an invalid public address or base path with the name of the setting", () => {
  for (const given of ["pierhead.example.org", "pierhead:8124", "ftp://a", "https://a/?b=c", "https://a/#b"]) {
    assert.throws(
      () => readConfig({ PIERHEAD_PUBLIC_URL: given }),
      /^Error: PIERHEAD_PUBLIC_URL must be .*, got "/,
      given,
    );
  }
  for (const given of ["pierhead", "https://a/b", "/a?b", "/a b"]) {
    assert.throws(() => readConfig({ BASE_PATH: given }), /^Error: BASE_PATH must be .*, got "/, given);
  }
});

test("gives agents addresses in their own domain, with the scheme and port of the public address", () => {
  for (const [publicUrl, domain, template] of [
    ["https://pierhead.example.org", "agents.example.net", "https://{slug}.agents.example.net"],
    ["http://10.1.2.3:8124/pierhead", "Agents.Example.Net.", "http://{slug}.agents.example.net:8124"],
  ]) {
    const { agentsDomain } = readConfig({ PIERHEAD_PUBLIC_URL: publicUrl, PIERHEAD_AGENTS_DOMAIN: domain });
    assert.deepEqual(agentsDomain, { domain: "agents.example.net", urlTemplate: template });
  }
  assert.equal(readConfig({}).agentsDomain, null);
});

test("refuses an agents' domain that is not a name, or contains the console's own host", () => {
  const refused = (domain: string, publicUrl: string | undefined, expected: RegExp) =>
    assert.throws(() => readConfig({ PIERHEAD_PUBLIC_URL: publicUrl, PIERHEAD_AGENTS_DOMAIN: domain }), expected);
  for (const given of ["https://agents.example.net", "*.example.net", "agents.example.net:80", "a..b", "-a.b"]) {
    refused(given, "https://pierhead.example.org", /^Error: PIERHEAD_AGENTS_DOMAIN must be a domain name/);
  }
  refused("agents.example.net", undefined, /needs PIERHEAD_PUBLIC_URL/);
  refused("example.org", "https://pierhead.example.org", /must not contain the host of PIERHEAD_PUBLIC_URL/);
  refused("pierhead.example.org", "https://pierhead.example.org", /must not contain the host/);
});

test("trims whitespace and the final newline of keys", () => {
  const names = ["PIERHEAD_ADMIN_KEY", "PIERHEAD_LISTENER_KEY", "PIERHEAD_METRICS_TOKEN"];
  const { adminKey, listenerKey, metricsToken } = readConfig(Object.fromEntries(names.map((name) => [name, " k \n"])));
  assert.deepEqual([adminKey, listenerKey, metricsToken], ["k", "k", "k"]);
  assert.equal(readConfig({ PIERHEAD_ADMIN_KEY: "\n" }).adminKey, undefined);
  assert.equal(readListenerConfig({ PIERHEAD_URL: "http://a", PIERHEAD_LISTENER_KEY: "k\n" }).key, "k");
});

test("reads the nodes of builds as JSON, and names the variable when it rejects anything else", () => {
  const read = (more: Record<string, string>) =>
    readListenerConfig({ PIERHEAD_URL: "http://a", PIERHEAD_LISTENER_KEY: "k", ...more });
  assert.deepEqual([read({}).buildNodeSelector, read({}).buildTolerations], [{}, []]);
  const selector = "PIERHEAD_KUBERNETES_BUILD_NODE_SELECTOR";
  assert.deepEqual(read({ [selector]: '{"pool":"builds"}' }).buildNodeSelector, { pool: "builds" });
  for (const given of ["pool=builds", "[]", '{"pool":1}', "null"])
    assert.throws(() => read({ [selector]: given }), /_BUILD_NODE_SELECTOR must be a JSON object of labels, got/);
  assert.throws(() => read({ PIERHEAD_KUBERNETES_BUILD_TOLERATIONS: '["a"]' }), /must be a JSON array of tolerations/);
});

test("reads the name by which nodes pull built images, and rejects one that is no repository", () => {
  const variable = "PIERHEAD_KUBERNETES_BUILD_PULL_REGISTRY";
  const read = (pullRegistry: string) =>
    readListenerConfig({ PIERHEAD_URL: "http://a", PIERHEAD_LISTENER_KEY: "k", [variable]: pullRegistry });
  assert.equal(read("localhost:30500/agents").buildPullRegistry, "localhost:30500/agents");
  for (const given of ["localhost:30500", "http://localhost:30500/agents"])
    assert.throws(() => read(given), /_BUILD_PULL_REGISTRY must be a repository like registry\.example\.com\/agents/);
});

test("rejects a blank number instead of reading it as 0", () => {
  assert.throws(() => readConfig({ PIERHEAD_RATE_LIMIT: " " }), /^Error: PIERHEAD_RATE_LIMIT must be a whole number/);
});

test("accepts only bucket prefixes that listings return unchanged", () => {
  const keys = { PIERHEAD_S3_ACCESS_KEY_ID: "a", PIERHEAD_S3_SECRET_ACCESS_KEY: "b" };
  const bucket = { PIERHEAD_S3_BUCKET: "sources", ...keys };
  for (const [given, taken] of [
    ["", ""],
    ["/pierhead", "pierhead/"],
    ["team-a/v1.2/", "team-a/v1.2/"],
  ]) {
    assert.equal(readConfig({ ...bucket, PIERHEAD_S3_PREFIX: given }).bucket?.prefix, taken);
  }
  for (const given of ["r&d/", "../others/", "a//b/", "a/./b"]) {
    assert.throws(
      () => readConfig({ ...bucket, PIERHEAD_S3_PREFIX: given }),
      /^Error: PIERHEAD_S3_PREFIX may have/,
      given,
    );
  }
});

test("names the setting of an invalid database address without repeating its password", () => {
  const nothing = /^Error: (\w+) must be /;
  for (const [name, given] of [
    ["DATABASE_URL", "mysql://root:canary@db/pierhead"],
    ["DATABASE_URL", "db.internal/pierhead?password=canary"],
    ["DATABASE_URL", "postgresql://pierhead:canary@db:port/pierhead"],
    ["PIERHEAD_AGENT_POSTGRES_URL", "db.internal:5432"],
    ["PIERHEAD_AGENT_REDIS_URL", "postgresql://u:canary@cache"],
  ] as const) {
    assert.throws(
      () => readConfig({ [name]: given }),
      (error: Error) => nothing.exec(String(error))?.[1] === name && !error.message.includes("canary"),
      given,
    );
  }
  for (const given of [
    "postgres://u:p@db",
    "postgresql://u@%2Fvar%2Frun/pierhead?sslmode=require",
    "postgresql:///pierhead?host=/var/run/postgresql",
    "/var/run/postgresql pierhead",
    "socket:/var/run/postgresql?db=pierhead",
  ]) {
    assert.equal(readConfig({ DATABASE_URL: given }).databaseUrl, given);
  }
  assert.equal(readConfig({ PIERHEAD_AGENT_REDIS_URL: "rediss://u:p@cache:6380/1" }).compute, "process");
});

test("accepts only an HTTP origin as the address of a replica for the others", () => {
  for (const given of ["http://10.0.0.7:8124", "http://10.0.0.7:8124/"])
    assert.equal(readConfig({ PIERHEAD_REPLICA_URL: given }).replicaUrl, "http://10.0.0.7:8124");
  for (const given of ["10.0.0.7:8124", "https://10.0.0.7:8124", "http://10.0.0.7/a", "http://u:p@10.0.0.7"])
    assert.throws(() => readConfig({ PIERHEAD_REPLICA_URL: given }), /^Error: PIERHEAD_REPLICA_URL must be .*, got "/);
});

test("a replica names the first address with which other machines reach it", () => {
  const address = (text: string, family: "IPv4" | "IPv6", internal = false) => ({
    ...{ address: text, internal, netmask: "", mac: "", cidr: null },
    ...(family === "IPv4" ? { family } : { family, scopeid: 0 }),
  });
  const lo = [address("127.0.0.1", "IPv4", true), address("::1", "IPv6", true)];
  const own = "http://127.0.0.1:8124";
  const urlOf = (host: string, ...outside: ReturnType<typeof address>[]) =>
    replicaUrlOf(host, own, { lo, eth0: outside });
  const [link, v6, v4] = [address("fe80::1", "IPv6"), address("fd00::7", "IPv6"), address("10.0.0.7", "IPv4")];
  assert.equal(urlOf("0.0.0.0", v6, v4), "http://10.0.0.7:8124");
  assert.equal(urlOf("::", link, v6), "http://[fd00::7]:8124");
  assert.equal(urlOf("::", link), own);
  assert.equal(urlOf("127.0.0.1", v4), own);
});

test("refuses an archive of log lines that ends before the retention of the database", () => {
  const read = (days: string) => readConfig({ PIERHEAD_LOG_ARCHIVE_DAYS: days, PIERHEAD_LOG_RETENTION_DAYS: "30" });
  assert.throws(() => read("30"), /PIERHEAD_LOG_ARCHIVE_DAYS must be more than PIERHEAD_LOG_RETENTION_DAYS/);
  assert.equal(read("31").logArchiveDays, 31);
  assert.equal(read("0").logArchiveDays, 0);
});
