import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import type { StartServer } from "../../src/cli/context.ts";
import { readConfig } from "../../src/server/config.ts";
import { startServer } from "../../src/server/start.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { templateDirectory } from "../support/database-template.ts";
import { eventually } from "../support/eventually.ts";
import { sharedCacheDir } from "../support/server.ts";

const source = (says: string) => `import http from "node:http";
http.createServer((_, response) => response.end("${says} " + process.env.WORD)).listen(process.env.PORT, () => console.log("${says} is ready"));
`;

test("dev serves a project, follows its files and its .env, keeps the old code beside a mistake, and stops on Ctrl-C", async () => {
  await using project = await createDirectory({
    "package.json": '{"name": "word", "type": "module", "scripts": {"start": "node server.mjs"}}',
    "server.mjs": source("one"),
    ".env": "WORD=hello",
    ".gitignore": "notes",
  });
  await using data = await createDirectory();
  const databaseTemplateDir = await templateDirectory();
  const stop = new AbortController();
  const said = { out: "", err: "" };
  const start: StartServer = async (environment, { stopReplicasOnClose }) => {
    assert.deepEqual([environment.DATABASE_URL, stopReplicasOnClose], [undefined, true]);
    const own = { PIERHEAD_CACHE_DIR: sharedCacheDir, PIERHEAD_DATABASE_TEMPLATE_DIR: databaseTemplateDir };
    const server = await startServer(readConfig({ ...environment, ...own }), { logger: createLogger("silent") });
    const { url, credentials } = server;
    return { url, credentials, close: () => server.close({ stopReplicas: stopReplicasOnClose }) };
  };
  const running = runCli(["dev", "--port", "0", "--data-dir", data.directory], {
    cwd: project.directory,
    env: { DATABASE_URL: "postgresql://127.0.0.1:1/elsewhere", PIERHEAD_API_KEY: "of-another-server" },
    signal: stop.signal,
    startServer: start,
    onStdout: (text) => (said.out = text),
    onStderr: (text) => (said.err = text),
  });
  const change = (file: string, text: string) => writeFile(path.join(project.directory, file), text);
  const answers = async (wanted: string) => {
    const ask = () => fetch(said.out.trim()).then((response) => response.text());
    await eventually(ask, (text) => text === wanted, { timeoutMs: 60_000, what: `the answer ${wanted}\n${said.err}` });
  };
  const says = (text: RegExp) =>
    eventually(
      () => said.err,
      (all) => text.test(all),
      { timeoutMs: 60_000, what: `${text}` },
    );
  try {
    await eventually(
      () => said.out,
      (url) => url !== "",
      { timeoutMs: 60_000, what: "the address" },
    );
    await answers("one hello");
    await says(/^Building\. .*\nStarting \.\.\.$/m);
    await says(new RegExp(`^  curl ${said.out.trim()}/$`, "m"));
    await change("server.mjs", source("two"));
    await answers("two hello");
    await change(".env", "WORD=bye");
    await answers("two bye");
    await says(/two is ready/);
    await change("server.mjs", 'throw new Error("Missing environment variable API_TOKEN")');
    await says(/Failed:.* API_TOKEN is not set\. Put it into \.env\.\n(?:.*\n)*.*throw new Error/);
    await answers("two bye");
    assert.match(said.err, /The code before still serves\./);
    const deploys = () => said.err.split("Deploying again").length;
    const before = deploys();
    await change("notes", "ignored");
    await change("server.mjs", source("three"));
    await answers("three bye");
    assert.equal(deploys(), before + 1, "a file that git ignores deploys nothing");
    await change("server.mjs", "setInterval(() => {}, 1000)");
    await eventually(deploys, (count) => count === before + 2, {
      timeoutMs: 60_000,
      what: "a deploy of what never answers",
    });
    await change("server.mjs", source("four"));
    await answers("four bye");
    await rm(path.join(project.directory, ".env"));
    await answers("four undefined");
    await change(".env", "WORD=again");
    await answers("four again");
  } finally {
    stop.abort();
    assert.equal((await running).code, 0, said.err);
  }
});
