import assert from "node:assert/strict";
import { test } from "node:test";
import { startCommand } from "../../src/builds/node/run-script.ts";
import { scratch, writeFiles } from "./fixtures.ts";

/** Returns the command that starts a project with this start script. */
async function startOf(start: string, files: Record<string, string> = {}): Promise<string> {
  await using place = await scratch();
  await writeFiles(place.dir, { "package.json": JSON.stringify({ scripts: { start } }), ...files });
  return (await startCommand(place.dir, ".", { start: ["script:start"], searchPath: "" })).join(" ");
}

test("starts the program that pm2 would start, so that a crash is seen", async () => {
  assert.equal(await startOf("pm2 start dist/main.js --name api -i max -- --verbose"), "node dist/main.js --verbose");
  assert.equal(
    await startOf("NODE_ENV=production pm2-runtime dist/main.js"),
    "env NODE_ENV=production node dist/main.js",
  );
  assert.equal(await startOf("pm2-runtime start main.py --interpreter python3"), "python3 main.py");
});

test("reads the program and its variables from a configuration of pm2", async () => {
  const apps = [{ name: "app", script: "src/index.js", autorestart: true, env: { NODE_ENV: "production", PORT: 80 } }];
  const json = { "ecosystem.config.json": JSON.stringify({ apps }) };
  const start = "cross-env TONE=calm pm2 start ecosystem.config.json --no-daemon";
  assert.equal(await startOf(start, json), "env NODE_ENV=production TONE=calm node src/index.js");
  const module = {
    "ecosystem.config.js": `module.exports = {\n  // script: "old.js",\n  apps: [{ script: "npm", args: "run serve", env_production: { LEVEL: 'info' } }],\n};\n`,
  };
  assert.equal(
    await startOf("pm2-runtime start ecosystem.config.js --env production", module),
    "env LEVEL=info npm run serve",
  );
});

test("leaves what pm2 starts in another way to pm2", async () => {
  const two = { "pm2.json": JSON.stringify({ apps: [{ script: "a.js" }, { script: "b.js" }] }) };
  assert.equal(await startOf("pm2-runtime start pm2.json", two), "pm2-runtime start pm2.json");
  assert.equal(await startOf("pm2 logs"), "pm2 logs");
});
