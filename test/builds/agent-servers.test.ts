import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { agentServers, fittingServers } from "../../src/builds/node/agent-servers.ts";
import { isInRange } from "../../src/builds/version-range.ts";
import { sharedPackages } from "../../src/compute/process/langgraph/langgraph-js-packages.ts";
import { scratch, writeFiles } from "./fixtures.ts";

const installed = (langgraph: string, core: string) => ({
  "@langchain/langgraph": { version: langgraph, manifest: "" },
  "@langchain/core": { version: core, manifest: "" },
});

test("chooses the newest LangGraph.js server whose requirements fit the installed packages", () => {
  const cases: [langgraph: string, core: string, server: string][] = [
    ["1.7.3", "1.4.0", "1.5.1"],
    ["1.4.18", "1.2.13", "1.5.1"],
    ["1.4.9", "1.1.48", "1.4.4"],
    ["1.3.2", "1.1.44", "1.2.2"],
    ["1.0.2", "1.0.6", "1.1.17"],
    ["0.4.9", "0.3.80", "1.1.17"],
    ["0.2.74", "0.3.59", "1.1.17"],
  ];
  for (const [langgraph, core, server] of cases) {
    const [chosen] = fittingServers(installed(langgraph, core));
    assert.equal(chosen.server.version, server, `langgraph ${langgraph}, core ${core}`);
    assert.match(chosen.because, new RegExp(`newest that works with .*${langgraph}.*${core}`));
  }
});

test("offers older servers that fit as well, in case the newest fails its check", () => {
  const offered = fittingServers(installed("1.4.18", "1.2.13")).map(({ server }) => server.version);
  assert.deepEqual(offered, ["1.5.1", "1.4.4", "1.2.2", "1.1.17"]);
});

test("tries the nearest server for packages that no server declares support for", () => {
  const [old] = fittingServers(installed("0.2.40", "0.3.20"));
  assert.equal(old.server.version, "1.1.17");
  assert.match(old.because, /no server declares support for @langchain\/langgraph 0\.2\.40/);
  assert.equal(fittingServers(installed("2.1.0", "2.0.0"))[0].server.version, "1.5.1");
});

test("never chooses the stray version 2.0.0 of the server", () => {
  assert.deepEqual(
    agentServers.map(({ version }) => version),
    ["1.5.1", "1.4.4", "1.2.2", "1.1.17"],
  );
});

test("reads npm ranges as packages declare them for their peers", () => {
  const inside = [
    ["1.4.18", "^1.4.18-rc.0"],
    ["0.3.80", "^0.3.59 || ^1.0.1"],
    ["1.0.0-alpha.5", "^1.0.0-alpha || ^1.0.0"],
    ["0.0.18", "~0.0.16"],
    ["1.9.9", ">=1.2 <2"],
    ["1.9.9", ">= 1.2.0 < 2.0.0"],
    ["1.2.3", "1.2.x"],
    ["3.0.0", "*"],
  ] as const;
  const outside = [
    ["1.4.17", "^1.4.18-rc.0"],
    ["0.4.0", "^0.3.59 || ^1.0.1"],
    ["0.1.0", "~0.0.16"],
    ["0.0.17", "^0.0.16"],
    ["2.0.0", ">=1.2 <2"],
    ["1.3.0", "1.2.x"],
    ["2.0.0", "~1"],
  ] as const;
  for (const [version, range] of inside) assert.ok(isInRange(version, range), `${version} is in ${range}`);
  for (const [version, range] of outside) assert.ok(!isInRange(version, range), `${version} is not in ${range}`);
});

test("finds the packages of a project in a workspace, behind langchain, and nested below LangGraph", async () => {
  await using place = await scratch();
  const package_ = (version: string) => JSON.stringify({ version });
  await writeFiles(place.dir, {
    "outside/node_modules/@langchain/langgraph/package.json": package_("9.9.9"),
    "outside/root/node_modules/langchain/package.json": package_("1.0.0"),
    "outside/root/node_modules/langchain/node_modules/@langchain/langgraph/package.json": package_("1.2.0"),
    "outside/root/node_modules/@langchain/core/package.json": package_("1.1.0"),
    "outside/root/node_modules/langchain/node_modules/@langchain/core/package.json": package_("1.1.44"),
    "outside/root/apps/agent/src/agent.ts": "",
  });
  const root = path.join(place.dir, "outside/root");
  const found = sharedPackages(path.join(root, "apps/agent/src"), root);
  assert.equal(found["@langchain/langgraph"]?.version, "1.2.0");
  assert.equal(found["@langchain/core"]?.version, "1.1.44");
  assert.equal(found["@langchain/langgraph-checkpoint"], undefined);
  const nothing = path.join(root, "apps");
  assert.deepEqual(sharedPackages(nothing, nothing), {});
});
