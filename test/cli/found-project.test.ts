import assert from "node:assert/strict";
import { test } from "node:test";
import { findProject } from "../../src/cli/source/project.ts";
import { type Files, scratch, writeFiles } from "../builds/fixtures.ts";

async function foundIn(files: Files): Promise<string> {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  return (await findProject(place.dir, undefined)).found;
}

test("names the lock file of the language in which the agents are written", async () => {
  const locks = { "package.json": "{}", "yarn.lock": "", "uv.lock": "", "pyproject.toml": "" };
  const javascript = JSON.stringify({ graphs: { agent: "./src/agent.ts:graph" } });
  assert.equal(await foundIn({ ...locks, "langgraph.json": javascript }), "langgraph.json: 1 graph, yarn.lock");
  const python = JSON.stringify({ graphs: { agent: "./agent.py:graph" }, python_version: "3.12" });
  assert.equal(await foundIn({ ...locks, "langgraph.json": python }), "langgraph.json: 1 graph, Python 3.12, uv.lock");
  const express = { "package.json": '{"dependencies": {"express": "5"}}', "server.js": "app.listen(process.env.PORT)" };
  assert.match(await foundIn({ ...locks, ...express }), /^Express: .*, yarn\.lock\. Start: node server\.js$/);
});
