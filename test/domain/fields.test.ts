import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { commandProblem } from "../../src/domain/commands.ts";
import { configPathProblem } from "../../src/domain/config-path.ts";
import { checkCustomUrl } from "../../src/domain/custom-url.ts";
import { repoUrlProblem } from "../../src/domain/git-url.ts";
import { parseImageReference } from "../../src/domain/image-reference.ts";
import { checkDeploymentName, slugOf } from "../../src/domain/names.ts";
import { isTag, isValidRef, looksLikeCommit, normalizeRef } from "../../src/domain/refs.ts";
import { refusal } from "./fixtures.ts";

test("commands: accepts programs joined by &&, quotes and parentheses, and refuses other shell syntax", () => {
  for (const good of [
    "npm ci",
    "npm ci && npm run build",
    "FOO='a b' make (x)",
    "a &&&& b",
    "pnpm i --frozen-lockfile",
  ]) {
    assert.equal(commandProblem(good), null, good);
  }
  for (const bad of [
    "a & b",
    "a &&& b",
    "a &",
    "&",
    "a | b",
    "a; b",
    "a > b",
    "a < b",
    "echo $HOME",
    "`id`",
    'a "b"',
    "a \\ b",
    "a\nb",
    "a\rb",
    "a\tb",
    "a\0b",
    "",
    "  ",
  ]) {
    assert.notEqual(commandProblem(bad), null, JSON.stringify(bad));
  }
});

test("commands: accepts exactly those without a forbidden character or a single &", () => {
  const piece = fc.constantFrom(
    "a",
    " ",
    "&",
    "&&",
    "'",
    "=",
    "(",
    ")",
    '"',
    "`",
    "\\",
    "\n",
    "\t",
    "|",
    ";",
    "$",
    ">",
    "<",
  );
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 12 }), (pieces) => {
      const command = `x${pieces.join("")}`;
      const isClean = [...command].every((character) => !'"`\\\n\t|;$><'.includes(character));
      const isPaired = command.replaceAll("&&", "").indexOf("&") === -1;
      assert.equal(commandProblem(command) === null, isClean && isPaired, JSON.stringify(command));
    }),
  );
});

test("config paths: relative, inside, .json, blanks allowed", () => {
  for (const good of ["langgraph.json", "My Agent/langgraph.json", "./a/b.json", "a..b/c.json"]) {
    assert.equal(configPathProblem(good), null, good);
  }
  for (const bad of [
    "",
    "/etc/a.json",
    "../a.json",
    "a/../../b.json",
    "a.yaml",
    ".json",
    "a/.json",
    "a\\b.json",
    "a\n.json",
    `${"a".repeat(1020)}.json`,
  ]) {
    assert.notEqual(configPathProblem(bad), null, JSON.stringify(bad));
  }
});

test("repository URLs: accepts the usual forms", () => {
  for (const good of [
    "https://github.com/acme/bot",
    "http://127.0.0.1:3000/a.git",
    "ssh://git@example.org:22/a/b.git",
    "git@github.com:acme/bot.git",
  ]) {
    assert.equal(repoUrlProblem(good, false), null, good);
  }
});

test("repository URLs: refuses those that run a program, pass an option, contain a credential or are malformed", () => {
  const bad = [
    ...[
      "",
      "-oProxyCommand=x",
      "--upload-pack=touch x",
      "ext::sh -c id",
      "fd::17",
      "::x",
      "https://user:secret@host/a",
    ],
    ...[
      "https://token@host/a",
      "ssh://-oProxyCommand=x/a",
      "ssh://%2Doption@host/a",
      "git://host/a",
      "https://host",
      "https:///a",
    ],
    ...[
      "https://host/a?b=c",
      "https://host/a#b",
      "https://host/a\nb",
      "https://host/a\0",
      " https://host/a",
      "acme/bot",
      "git@-host:a",
    ],
    ...["git@host:-a", "-u@host:a", "javascript:alert(1)", "ssh://git:pw@host/a", `https://host/${"a".repeat(3000)}`],
  ];
  for (const url of bad) for (const allowed of [true, false]) assert.notEqual(repoUrlProblem(url, allowed), null, url);
  assert.match(repoUrlProblem("https://user:secret@host/a", false) ?? "", /integration/);
});

test("repository URLs: accepts paths of this host only if the operator allows them", () => {
  for (const local of ["/srv/git/a.git", "file:///srv/git/a.git"]) {
    assert.match(repoUrlProblem(local, false) ?? "", /operator/);
    assert.equal(repoUrlProblem(local, true), null);
  }
  for (const bad of ["file://host/a", "file:a", "/srv/../etc", "file:///srv/%2e%2e/etc", "file:///srv%2f..%2fetc"]) {
    assert.notEqual(repoUrlProblem(bad, true), null, bad);
  }
});

test("refs: distinguishes branches, tags and commits by their form", () => {
  assert.equal(normalizeRef("refs/heads/feature/a"), "feature/a");
  assert.equal(normalizeRef("refs/tags/v1"), "refs/tags/v1");
  assert.deepEqual([isTag("refs/tags/v1"), isTag("v1")], [true, false]);
  assert.deepEqual(["abc1234", "a".repeat(40), "abc123", "ABC1234", "main"].map(looksLikeCommit), [
    true,
    true,
    false,
    false,
    false,
  ]);
  for (const good of ["main", "feature/a-b", "refs/tags/v1.0.0", "a@b", "ünïcode", "v1.lock2"])
    assert.ok(isValidRef(good), good);
  for (const bad of [
    "",
    "-x",
    "--upload-pack=x",
    "a..b",
    "a b",
    "a~1",
    "a^",
    "a:b",
    "a?",
    "a*",
    "a[",
    "a\\b",
    "@",
    "a@{1}",
    "/a",
    "a/",
    "a//b",
    ".a",
    "a/.b",
    "a.lock",
    "a.",
    "a\nb",
    "refs/tags/",
  ]) {
    assert.ok(!isValidRef(bad), bad);
  }
});

test("image references: parses registry, repository, tag and digest by the docker grammar", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const cases: [string, ReturnType<typeof parseImageReference>][] = [
    ["agent", { registry: null, repository: "agent", tag: null, digest: null }],
    ["acme/agent:1.0", { registry: null, repository: "acme/agent", tag: "1.0", digest: null }],
    ["localhost/agent", { registry: "localhost", repository: "agent", tag: null, digest: null }],
    [`reg.example:5000/a/b__c:x@${digest}`, { registry: "reg.example:5000", repository: "a/b__c", tag: "x", digest }],
    ["[::1]:5000/a", { registry: "[::1]:5000", repository: "a", tag: null, digest: null }],
    [
      `us-docker.pkg.dev/p/r/app@${digest}`,
      { registry: "us-docker.pkg.dev", repository: "p/r/app", tag: null, digest },
    ],
  ];
  for (const [text, expected] of cases) assert.deepEqual(parseImageReference(text), expected, text);
  for (const bad of [
    "",
    "https://reg/a:1",
    "Agent",
    "a/B",
    "a:",
    "a@sha256:abc",
    `a@sha256:${"a".repeat(32)}`,
    "a b",
    "-a",
    "a/",
    "/a",
    "a::1",
    "a:1:2",
    `${"a".repeat(300)}`,
    "a\n",
  ]) {
    assert.equal(parseImageReference(bad), null, bad);
  }
});

test("a custom URL is http or https, carries no credential, and has another host than the server", () => {
  assert.equal(
    refusal(() => checkCustomUrl("https://agents.example.org/bot", "pierhead.example.org")),
    "accepted",
  );
  const taken = ["https://pierhead.example.org/v2", "http://PIERHEAD.example.org:8124"];
  for (const bad of ["ftp://a/b", "agents.example.org", "https://a:b@c/", "javascript:alert(1)", ...taken]) {
    assert.match(
      refusal(() => checkCustomUrl(bad, "pierhead.example.org")),
      /^400 invalidField/,
      bad,
    );
  }
});

test("names: accepts what existing clients send, and refuses invalid first, last and other characters", () => {
  for (const good of ["a", "app", "my_deployment", "My Bot 2.0", "a-b", "x".repeat(128)]) {
    assert.equal(
      refusal(() => checkDeploymentName(good)),
      "accepted",
      good,
    );
  }
  for (const bad of ["", "-a", "a-", "_a", " a", "a ", "a/b", "ä", "a\nb", "a\n", "x".repeat(129)]) {
    assert.match(
      refusal(() => checkDeploymentName(bad)),
      /^400 invalidName/,
      JSON.stringify(bad),
    );
  }
});

test("makes a slug that is a Kubernetes name and leaves room for suffixes", () => {
  const id = "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11";
  assert.equal(slugOf("support-bot", id), "support-bot-6b1f0f64");
  assert.equal(slugOf("My Bot 2.0", id), "my-bot-2-0-6b1f0f64");
  assert.equal(slugOf("2fast", id), "d-2fast-6b1f0f64");
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Za-z0-9]([A-Za-z0-9._ -]{0,126}[A-Za-z0-9])?$/), fc.uuid(), (name, uuid) => {
      checkDeploymentName(name);
      assert.match(slugOf(name, uuid), /^[a-z](?:[a-z0-9-]{0,37}[a-z0-9])$/);
    }),
  );
});
