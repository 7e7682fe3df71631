import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { chmod, chown, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { fetchCommit, resolveRef } from "../../src/integrations/git.ts";
import { explainGit, GitFailure, type GitRemote } from "../../src/integrations/git-failure.ts";
import { gitRepository, scratch } from "../builds/fixtures.ts";
import { gitHttpServer } from "./git-http-server.ts";

/** Separate temporary directory, so that the search for leftovers of git ignores test processes that run at the same time. */
const temporary = await mkdtemp(path.join(tmpdir(), "pierhead-git-test-"));
process.env["TMPDIR"] = temporary;
after(() => rm(temporary, { recursive: true, force: true }));

const local = (repoUrl: string, changes: Partial<GitRemote> = {}): GitRemote => ({
  repoUrl,
  credential: null,
  allowLocal: true,
  allowPrivateNetwork: true,
  signal: new AbortController().signal,
  timeoutMs: 60_000,
  ...changes,
});

async function failureOf(work: Promise<unknown>): Promise<GitFailure> {
  const error = await work.then(
    () => assert.fail("it should have failed"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof GitFailure, String(error));
  return error;
}

test("resolves a branch, a tag, an annotated tag and a commit", async () => {
  await using place = await scratch();
  const repository = await gitRepository(place.dir);
  const first = await repository.commit({ "a.txt": "1" });
  await repository.git("tag", "light");
  await repository.git("tag", "--annotate", "heavy", "--message=heavy");
  const second = await repository.commit({ "a.txt": "2" });
  await repository.git("branch", "feature/x");

  const resolve = (ref: string) => resolveRef({ ...local(place.dir), ref });
  assert.deepEqual(await resolve("main"), { commitSha: second, refKind: "branch" });
  assert.deepEqual(await resolve("refs/heads/main"), { commitSha: second, refKind: "branch" });
  assert.deepEqual(await resolve("feature/x"), { commitSha: second, refKind: "branch" });
  assert.deepEqual(await resolve("refs/tags/light"), { commitSha: first, refKind: "tag" });
  assert.deepEqual(await resolve("refs/tags/heavy"), { commitSha: first, refKind: "tag" });
  assert.deepEqual(await resolve(first), { commitSha: first, refKind: "commit" });
  assert.deepEqual(await resolve(first.slice(0, 8).toUpperCase()), { commitSha: first, refKind: "commit" });
  assert.deepEqual(await resolveRef({ ...local(`file://${place.dir}`), ref: "main" }), {
    commitSha: second,
    refKind: "branch",
  });
});

test("names the missing credential for an SSH address and the alternative", async () => {
  for (const repoUrl of ["git@code.invalid:acme/bot.git", "ssh://git@code.invalid:22/acme/bot.git"]) {
    const failure = await failureOf(resolveRef({ ...local(repoUrl), ref: "main" }));
    assert.equal(failure.reason, "AccessDenied");
    assert.match(failure.message, /needs an SSH key.*integration_id.*https:\/\/code\.invalid\/acme\/bot\.git/);
  }
});

test("prefers a branch whose name looks like a commit id", async () => {
  await using place = await scratch();
  const repository = await gitRepository(place.dir);
  const commitSha = await repository.commit({ "a.txt": "1" });
  await repository.git("branch", "deadbeef");
  assert.deepEqual(await resolveRef({ ...local(place.dir), ref: "deadbeef" }), { commitSha, refKind: "branch" });
  const second = await repository.commit({ "a.txt": "2" });
  await repository.git("update-ref", `refs/heads/${commitSha}`, second);
  await repository.git("update-ref", `refs/heads/${second}x`, commitSha);
  assert.deepEqual(await resolveRef({ ...local(place.dir), ref: commitSha }), { commitSha: second, refKind: "branch" });
  assert.deepEqual(await resolveRef({ ...local(place.dir), ref: second }), { commitSha: second, refKind: "commit" });
});

test("resolves a full id of a tag to its commit and rejects other objects", async () => {
  await using place = await scratch();
  const repository = await gitRepository(place.dir);
  const commitSha = await repository.commit({ "a.txt": "1" });
  await repository.git("tag", "--annotate", "heavy", "--message=heavy");
  const idOf = async (what: string) => (await repository.git("rev-parse", what)).trim();
  const resolve = (ref: string) => resolveRef({ ...local(place.dir), ref });
  assert.deepEqual(await resolve(await idOf("heavy")), { commitSha, refKind: "commit" });
  assert.equal((await failureOf(resolve(await idOf("HEAD:a.txt")))).reason, "RefNotFound");
});

test("lists the existing refs for an unknown ref", async () => {
  await using place = await scratch();
  const repository = await gitRepository(place.dir);
  await repository.commit({ "a.txt": "1" });
  await repository.git("tag", "v1");
  const expected: [string, RegExp][] = [
    ["nope", /no branch 'nope'. The default branch is 'main'/],
    ["v1", /use 'refs\/tags\/v1'/],
    ["refs/tags/main", /branch of that name: use 'main'/],
    ["abcdef1234", /no commit whose id begins with it/],
    ["a".repeat(40), /no commit a{40}/],
  ];
  for (const [ref, message] of expected) {
    const failure = await failureOf(resolveRef({ ...local(place.dir), ref }));
    assert.equal(failure.reason, "RefNotFound");
    assert.match(failure.message, message);
  }
});

test("fetches the files of a commit without git data, even if no ref points to it", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  await repository.commit({ "a.txt": "1" });
  const lost = await repository.commit({ "a.txt": "2", "b c/d.txt": "3" });
  await repository.git("reset", "--quiet", "--hard", "HEAD~1");

  const directory = path.join(place.dir, "out");
  await fetchCommit({ ...local(repository.dir), commitSha: lost, directory });
  assert.deepEqual((await readdir(directory)).toSorted(), ["a.txt", "b c"]);
  assert.equal(await readFile(path.join(directory, "a.txt"), "utf8"), "2");
  assert.equal(
    (await failureOf(fetchCommit({ ...local(repository.dir), commitSha: "b".repeat(40), directory }))).reason,
    "RefNotFound",
  );
});

test("reads a repository of another user", {
  skip: process.getuid?.() !== 0 && "needs root to give files away",
}, async () => {
  await using place = await scratch();
  const repository = await gitRepository(place.dir);
  const commitSha = await repository.commit({ "a.txt": "1" });
  for (const name of ["", ...(await readdir(place.dir, { recursive: true }))])
    await chown(path.join(place.dir, name), 1234, 1234);
  assert.equal((await resolveRef({ ...local(place.dir), ref: "main" })).commitSha, commitSha);
});

test("runs no hooks, filters or configuration of a repository or user", async () => {
  await using place = await scratch();
  const canary = path.join(place.dir, "canary");
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const commitSha = await repository.commit({
    ".gitattributes": "* filter=evil\n",
    "a.txt": "1",
    ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1",
  });
  await repository.git("config", "filter.evil.smudge", `touch ${canary}`);
  await repository.git("config", "uploadpack.packObjectsHook", `touch ${canary}`);
  for (const hook of ["post-checkout", "reference-transaction", "post-index-change"]) {
    await writeFile(path.join(repository.dir, ".git/hooks", hook), `#!/bin/sh\ntouch ${canary}\n`, { mode: 0o755 });
  }
  await resolveRef({ ...local(repository.dir), ref: "main" });
  await fetchCommit({ ...local(repository.dir), commitSha, directory: path.join(place.dir, "out") });
  assert.deepEqual((await readdir(place.dir)).toSorted(), ["out", "repository"]);
});

test("treats no user value as an option, a command or another protocol", async () => {
  await using place = await scratch();
  const canary = path.join(place.dir, "canary");
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const commitSha = await repository.commit({ "a.txt": "1" });
  const evil = path.join(place.dir, "evil.sh");
  await writeFile(evil, `#!/bin/sh\ntouch ${canary}\n`);
  await chmod(evil, 0o755);

  const commands = [
    `--upload-pack=${evil}`,
    `-u${evil}`,
    `--exec=${evil}`,
    `$(${evil})`,
    `\`${evil}\``,
    `;${evil};`,
    `|${evil}`,
    `\n${evil}`,
    `-c core.sshCommand=${evil}`,
    `--config=core.askPass=${evil}`,
    `--output=${canary}`,
  ];
  const urls = [
    ...commands,
    `ext::${evil}`,
    `ext::sh -c ${evil}`,
    `fd::${evil}`,
    `ssh://-oProxyCommand=${evil}/x`,
    `ssh://x/-oProxyCommand=${evil}`,
    `-oProxyCommand=${evil}:x`,
    `git@-oProxyCommand=${evil}:x`,
    `git://127.0.0.1/x`,
    `file://${repository.dir}/%2e%2e%2f`,
    `file://host${repository.dir}`,
    `//${repository.dir}`,
    `https://user:password@127.0.0.1/x`,
    `http://127.0.0.1:1/x?service=${evil}`,
    `http://127.0.0.1:1/$(${evil})`,
    `https://[::1]:1/--upload-pack=${evil}`,
    `${repository.dir}\0`,
    "",
    " ",
    "repository",
    "./repository",
  ];
  for (const repoUrl of urls) await failureOf(resolveRef({ ...local(repoUrl), ref: "main" }));
  const refs = [
    ...commands,
    "-",
    "--",
    "--all",
    "main:main",
    "+main",
    "refs/heads/*",
    "*",
    "main^{/x}",
    "main~1",
    "@",
    "@{u}",
    "HEAD:a.txt",
    "..",
    "a..b",
    "a.lock",
    "/a",
    "a//b",
    "a b",
    "",
    "\0",
    "refs/heads/",
    "x".repeat(2_000),
  ];
  for (const ref of refs)
    assert.equal((await failureOf(resolveRef({ ...local(repository.dir), ref }))).reason, "RefNotFound");
  for (const sha of [...commands, commitSha.slice(1), `${commitSha}^{tree}`, "main"]) {
    await failureOf(fetchCommit({ ...local(repository.dir), commitSha: sha, directory: path.join(place.dir, "out") }));
  }
  assert.deepEqual((await readdir(place.dir)).toSorted(), ["evil.sh", "repository"]);
});

test("rejects local paths and private addresses before connecting unless the operator allows them", async () => {
  let connections = 0;
  const trap = createServer((socket) => {
    connections++;
    socket.destroy();
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => trap.once("listening", resolve));
  const { port } = trap.address() as { port: number };
  const hosts = [
    "127.0.0.1",
    "localhost",
    "localhost.",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "0",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "[fd00::1]",
    "[fe80::1]",
    "100.64.0.1",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
  ];
  try {
    for (const host of hosts) {
      for (const scheme of ["http", "https"]) {
        const failure = await failureOf(
          resolveRef({ ...local(`${scheme}://${host}:${port}/x`, { allowPrivateNetwork: false }), ref: "main" }),
        );
        assert.equal(failure.reason, "UrlRefused", `${host}: ${failure.message}`);
      }
    }
    for (const repoUrl of ["/etc", "file:///etc", "/tmp/../etc"]) {
      assert.equal(
        (await failureOf(resolveRef({ ...local(repoUrl, { allowLocal: false }), ref: "main" }))).reason,
        "UrlRefused",
      );
    }
    assert.equal(connections, 0);
  } finally {
    trap.close();
  }
});

test("opens a private repository over HTTP only with its credential, which no process or message shows", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "private.git"));
  const commitSha = await repository.commit({ "a.txt": "1" });
  const credential = { username: "x-access-token", password: "s3cret-$(id)-pässword" };
  const leaks: string[] = [];
  await using server = await gitHttpServer(place.dir, credential, () => leaks.push(...processesThatShow("s3cret")));
  const url = `${server.url}/private.git`;

  assert.equal((await failureOf(resolveRef({ ...local(url), ref: "main" }))).reason, "AccessDenied");
  const wrong = await failureOf(
    resolveRef({ ...local(url, { credential: { ...credential, password: "s3cret-wrong" } }), ref: "main" }),
  );
  assert.equal(wrong.reason, "AccessDenied");
  assert.doesNotMatch(wrong.message, /s3cret/);
  assert.equal(
    (await failureOf(resolveRef({ ...local(`${server.url}/none.git`, { credential }), ref: "main" }))).reason,
    "AccessDenied",
  );
  assert.equal((await resolveRef({ ...local(url, { credential }), ref: "main" })).commitSha, commitSha);
  assert.equal((await resolveRef({ ...local(url, { credential }), ref: commitSha.slice(0, 10) })).commitSha, commitSha);
  const directory = path.join(place.dir, "out");
  await fetchCommit({ ...local(url, { credential }), commitSha, directory });
  assert.equal(await readFile(path.join(directory, "a.txt"), "utf8"), "1");
  for (const password of ["a\nb", "a\rb", "a\0b"]) {
    const broken = await failureOf(
      resolveRef({ ...local(url, { credential: { username: "u", password } }), ref: "main" }),
    );
    assert.match(broken.message, /line break/);
  }
  assert.deepEqual(leaks, []);
  // A public repository requests no credential. An unused credential is not a failure.
  assert.equal((await resolveRef({ ...local(repository.dir, { credential }), ref: "main" })).commitSha, commitSha);
});

test("does not follow a redirect and reports that the repository moved", async () => {
  await using place = await scratch();
  await using server = await gitHttpServer(place.dir, null);
  const failure = await failureOf(resolveRef({ ...local(`${server.url}/redirect.git`), ref: "main" }));
  assert.equal(failure.reason, "UrlRefused");
  assert.match(failure.message, /moved or renamed/);
  assert.deepEqual(server.redirected(), []);
});

test("distinguishes a silent host, an abort and a closed port", async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const { port } = silent.address() as { port: number };
  const url = `http://127.0.0.1:${port}/x.git`;
  try {
    const before = await gitDirectories();
    assert.equal((await failureOf(resolveRef({ ...local(url, { timeoutMs: 500 }), ref: "main" }))).reason, "Timeout");
    const abort = new AbortController();
    const cancelled = failureOf(resolveRef({ ...local(url, { signal: abort.signal }), ref: "main" }));
    abort.abort();
    assert.equal((await cancelled).reason, "Cancelled");
    assert.equal(
      (await failureOf(resolveRef({ ...local("http://127.0.0.1:1/x.git"), ref: "main" }))).reason,
      "Unreachable",
    );
    assert.deepEqual(
      (await gitDirectories()).filter((name) => !before.includes(name)),
      [],
    );
  } finally {
    silent.close();
  }
});

test("keeps a checked-out link a link and overwrites nothing outside", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  await symlink("/etc/hostname", path.join(repository.dir, "link"));
  const commitSha = await repository.commit({ "a.txt": "1" });
  const directory = path.join(place.dir, "out");
  await fetchCommit({ ...local(repository.dir), commitSha, directory });
  const entries = await readdir(directory, { withFileTypes: true });
  assert.ok(entries.find((entry) => entry.name === "link")?.isSymbolicLink());
});

/** Returns the files below /proc with the arguments or environment of another process that contain the secret. */
function processesThatShow(secret: string): string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.flatMap((pid) =>
    ["cmdline", "environ"].flatMap((file) => {
      try {
        return readFileSync(`/proc/${pid}/${file}`, "utf8").includes(secret) ? [`${pid}/${file}`] : [];
      } catch {
        return [];
      }
    }),
  );
}

const gitDirectories = async () => (await readdir(tmpdir())).filter((name) => name.startsWith("pierhead-git-"));

test("reports a full disk as the cause among other git messages", () => {
  const stderr = `remote: Enumerating objects
error: file write error: No space left on device
fatal: unable to write loose object file
error: unpack-objects failed
`;
  const remote = { repoUrl: "https://127.0.0.1:1/acme/bot", credential: null, allowLocal: false };
  const more = { allowPrivateNetwork: false, signal: new AbortController().signal, timeoutMs: 1_000 };
  const { message } = explainGit({ stderr, exitCode: 128, signal: null }, { ...remote, ...more });
  assert.match(message, /git failed for .*No space left on device/);
});
