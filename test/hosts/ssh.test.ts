import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { accessSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { fetchCommit, resolveRef } from "../../src/integrations/git.ts";
import { gitAccess, type OpenIntegration } from "../../src/integrations/git-access.ts";
import { GitFailure } from "../../src/integrations/git-failure.ts";
import { openSsh } from "../../src/integrations/ssh.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";

const run = promisify(execFile);
const sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].find((file) => {
  try {
    accessSync(file);
    return true;
  } catch {
    return false;
  }
});
const skip = sshd === undefined ? "sshd (Debian: apt-get install openssh-server)" : false;
if (skip) console.log(`SKIPPED ssh: ${skip}`);

const directory = await mkdtemp(path.join(tmpdir(), "pierhead-sshd-"));
const repository = await createAgentRepository();
after(async () => {
  await repository[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function makeKey(name: string, passphrase = ""): Promise<{ privateKey: string; publicKey: string }> {
  const file = path.join(directory, name);
  // ssh-keygen asks before it replaces a file.
  await rm(file, { force: true });
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", file]);
  return { privateKey: await readFile(file, "utf8"), publicKey: (await readFile(`${file}.pub`, "utf8")).trim() };
}

/** Starts a real sshd on loopback that accepts one key. */
async function startSshd() {
  const [hostKey, user] = [await makeKey("host"), await makeKey("user")];
  const port = await freePort();
  await writeFile(path.join(directory, "authorized_keys"), `${user.publicKey}\n`, { mode: 0o600 });
  await writeFile(
    path.join(directory, "config"),
    [
      ...[`Port ${port}`, "ListenAddress 127.0.0.1", `HostKey ${path.join(directory, "host")}`, "PidFile none"],
      ...[`AuthorizedKeysFile ${path.join(directory, "authorized_keys")}`, "StrictModes no", "UsePAM no"],
      ...["PermitRootLogin prohibit-password", "PasswordAuthentication no", "KbdInteractiveAuthentication no"],
    ].join("\n"),
  );
  await mkdir("/run/sshd", { recursive: true }).catch(() => undefined);
  const server = spawn(sshd as string, ["-D", "-e", "-f", path.join(directory, "config")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  server.stderr.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  await eventually(
    () => log,
    (text) => text.includes("Server listening"),
  );
  const [type, key] = hostKey.publicKey.split(" ");
  return { port, user, knownHosts: `[127.0.0.1]:${port} ${type} ${key}`, stop: () => server.kill("SIGKILL") };
}

const account = process.env["USER"] ?? (await run("id", ["-un"])).stdout.trim();
const settings = { github: { isConfigured: true, current: async () => null }, allowPrivateNetwork: true };
const asked = () => ({ allowLocal: false, signal: AbortSignal.timeout(30_000), timeoutMs: 30_000 });

test("reads a repository with a stored SSH key that appears in no file, argument or variable", {
  skip,
}, async () => {
  const server = await startSshd();
  const watching = new AbortController();
  const seen = watch(watching.signal);
  try {
    const repoUrl = `ssh://${account}@127.0.0.1:${server.port}${repository.directory}`;
    const integration: OpenIntegration = {
      ...{ id: "i", host: "git", installationId: null, url: "ssh://127.0.0.1", username: null, token: null },
      ...{ sshKey: server.user.privateKey, sshKnownHosts: server.knownHosts },
    };
    const access = await gitAccess(settings, { integration, repoUrl }, asked().signal);
    const { commitSha } = await resolveRef({ ...asked(), ...access, repoUrl, ref: "main" });
    const target = path.join(directory, "checkout");
    await fetchCommit({ ...asked(), ...access, repoUrl, commitSha, directory: target });
    assert.ok((await readdir(target)).includes("pierhead.json"));

    const deep = path.join(directory, "of-a-build-in-a-data-directory".repeat(4));
    await mkdir(deep);
    const usual = process.env["TMPDIR"];
    process.env["TMPDIR"] = deep;
    const again = await resolveRef({ ...asked(), ...access, repoUrl, ref: "main" }).finally(() => {
      if (usual === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = usual;
    });
    assert.equal(again.commitSha, commitSha, "a long temporary directory works");

    const read = (credential: { privateKey: string; knownHosts: string }) =>
      resolveRef({ ...asked(), credential, allowPrivateNetwork: true, repoUrl, ref: "main" });
    const refusedWith = async (credential: { privateKey: string; knownHosts: string }, words: RegExp) => {
      const failure = await read(credential).then(
        () => assert.fail("it was read"),
        (error: unknown) => error,
      );
      assert.ok(failure instanceof GitFailure);
      assert.match(failure.message, words);
      return failure.reason;
    };
    const other = await makeKey("other");
    const { privateKey } = server.user;
    const impostor = `[127.0.0.1]:${server.port} ${other.publicKey}`;
    assert.equal(
      await refusedWith({ privateKey, knownHosts: impostor }, /Host key verification failed/),
      "AccessDenied",
    );
    assert.equal(
      await refusedWith({ privateKey: other.privateKey, knownHosts: server.knownHosts }, /Permission denied/),
      "AccessDenied",
    );
    const locked = await makeKey("locked", "passphrase");
    await refusedWith({ privateKey: locked.privateKey, knownHosts: server.knownHosts }, /without a passphrase/);
    const guarded = {
      ...asked(),
      credential: { privateKey, knownHosts: server.knownHosts },
      allowPrivateNetwork: false,
    };
    await assert.rejects(resolveRef({ ...guarded, repoUrl, ref: "main" }), /not.*public|private/i);
  } finally {
    watching.abort();
    server.stop();
  }
  const body = (await readFile(path.join(directory, "user"), "utf8")).split("\n")[1] ?? "";
  assert.ok(!(await seen).includes(body), "the key appeared in a process or file");
});

test("fails immediately with the message of an ssh-agent that cannot start", async () => {
  const scratchDir = path.join(directory, "occupied");
  await mkdir(scratchDir);
  await writeFile(path.join(scratchDir, "agent"), "");
  const asking = { key: { privateKey: "key", knownHosts: "" }, target: { host: "h", port: null, address: null } };
  const opening = openSsh(scratchDir, { ...asking, timeoutMs: 30_000 }, AbortSignal.timeout(30_000));
  await assert.rejects(opening, { name: "GitFailure", message: /ssh-agent does not start here: .*in use/ });
});

test("uses a key only for repositories below its integration's address", async () => {
  const integration: OpenIntegration = {
    ...{ id: "i", host: "git", installationId: null, url: "https://git.example.org/acme", username: null, token: "t" },
    ...{ sshKey: "key", sshKnownHosts: "hosts" },
  };
  const access = (repoUrl: string) => gitAccess(settings, { integration, repoUrl }, asked().signal);
  for (const repoUrl of ["git@git.example.org:acme/bot.git", "ssh://git@git.example.org:2222/acme/bot"]) {
    assert.deepEqual((await access(repoUrl)).credential, { privateKey: "key", knownHosts: "hosts" });
  }
  for (const repoUrl of [
    ...[
      "git@evil.example:acme/bot.git",
      "ssh://git@git.example.org.evil.example/acme/bot",
      "git@git.example.org:other/bot",
    ],
    ...[
      "ssh://git@evil.example/git.example.org/acme",
      "https://git.example.org/other/bot",
      "https://git.example.org:444/acme/bot",
    ],
    ...["http://git.example.org/acme/bot", "file:///acme/bot", "/acme/bot"],
  ]) {
    await assert.rejects(access(repoUrl), GitFailure, repoUrl);
  }
});

/** Polls the command lines, environments and temporary files of git and ssh. */
async function watch(signal: AbortSignal): Promise<string> {
  const seen = new Set<string>();
  while (!signal.aborted) {
    for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
      for (const file of ["cmdline", "environ"]) {
        const text = await readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
        if (/git|ssh/.test(text)) seen.add(text);
      }
    }
    for (const name of (await readdir(tmpdir())).filter((one) => one.startsWith("pierhead-git-"))) {
      for (const file of await readdir(path.join(tmpdir(), name)).catch(() => [])) {
        seen.add(await readFile(path.join(tmpdir(), name, file), "utf8").catch(() => ""));
      }
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  return [...seen].join("\n");
}

test("ends with git, although the host keeps ssh open with what is not git's protocol", { skip }, async () => {
  const server = await startSshd();
  try {
    const endless = `command="head -c 100000 /dev/zero; sleep 30" ${server.user.publicKey}\n`;
    await writeFile(path.join(directory, "authorized_keys"), endless, { mode: 0o600 });
    const repoUrl = `ssh://${account}@127.0.0.1:${server.port}/endless`;
    const credential = { privateKey: server.user.privateKey, knownHosts: server.knownHosts };
    const remote = { ...asked(), repoUrl, credential, allowPrivateNetwork: true, timeoutMs: 10_000 };
    await assert.rejects(resolveRef({ ...remote, ref: "main" }), { reason: "GitFailed" });
  } finally {
    server.stop();
  }
});
