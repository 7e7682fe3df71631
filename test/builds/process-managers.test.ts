import assert from "node:assert/strict";
import { test } from "node:test";
import { startCommand } from "../../src/builds/node/run-script.ts";
import { scratch, writeFiles } from "./fixtures.ts";

/** Returns the command that starts a project with this start script. */
async function startOf(start: string, files: Record<string, string> = {}, scripts = {}): Promise<string> {
  await using place = await scratch();
  await writeFiles(place.dir, { "package.json": JSON.stringify({ scripts: { start, ...scripts } }), ...files });
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

/** A configuration of pm2 with one program. */
const config = (text: string) => ({ "ecosystem.config.js": `module.exports = { apps: [{ name: "x", ${text} }] };\n` });

test("keeps the arguments of a program and of Node in a configuration of pm2", async () => {
  const start = "pm2-runtime ecosystem.config.js";
  for (const [text, command] of [
    [`script: "npm run serve", instances: "max"`, "npm run serve"],
    [`script: "node_modules/.bin/next", args: "start"`, "node_modules/.bin/next start"],
    [`script: "dist/cli.js", args: ["start", '--all'], // both`, "node dist/cli.js start --all"],
    [
      `script: "./bin/www", node_args: "-r dotenv/config --trace-warnings"`,
      "node -r dotenv/config --trace-warnings ./bin/www",
    ],
    [
      `script: "a.js", cwd: __dirname, env: { ...process.env, PORT: process.env.PORT || 80, A: "1" }`,
      "env A=1 node a.js",
    ],
  ] as const)
    assert.equal(await startOf(start, config(text)), command);
  assert.equal(await startOf("pm2-runtime --node-args=--import=tsx --only api a.js"), "node --import=tsx a.js");
  assert.equal(await startOf("pm2-runtime app.py --interpreter=python3"), "python3 app.py");
});

test("leaves a configuration of pm2 that computes what it starts to pm2", async () => {
  const start = "pm2-runtime ecosystem.config.js --env 'prod(x)'";
  for (const text of [
    `script: "main.js", cwd: path.join(__dirname, "dist")`,
    `script: "main.js", args: process.argv.slice(2)`,
    `script: "main.js", node_args: options`,
    `script: "main.js", env: { TTL: 60 * 1000 }`,
    `script: "main.js", env: { TONE: process.env.TONE || "calm" }`,
    `script: "run.sh"`,
    `script: "serve"`,
  ])
    assert.match(await startOf(start, config(text)), /^pm2-runtime/, text);
  const unquoted = { "pm2.yaml": "apps:\n  - script: 'a.js'\n    args: serve\n" };
  assert.equal(await startOf("pm2-runtime pm2.yaml", unquoted), "pm2-runtime pm2.yaml");
});

test("reads a configuration of pm2 that is made to be slow", async () => {
  const size = 200 * 1024;
  for (const text of [`env: { ${"a".repeat(size)} }`, `env: {${"\n".repeat(size)}x}`, `args: [${" ".repeat(size)}x]`])
    assert.match(await startOf("pm2-runtime ecosystem.config.js", config(`script: "a.js", ${text}`)), /^pm2-runtime/);
});

test("leaves what pm2 starts in another way to pm2", async () => {
  for (const start of ["pm2-runtime a.js b.js", "pm2-runtime a.py", "pm2-runtime --container a.js"])
    assert.equal(await startOf(start), start);
  const two = { "pm2.json": JSON.stringify({ apps: [{ script: "a.js" }, { script: "b.js" }] }) };
  assert.equal(await startOf("pm2-runtime start pm2.json", two), "pm2-runtime start pm2.json");
  assert.equal(await startOf("pm2 logs"), "pm2 logs");
});

test("starts the program of pm2 after the programs that a start script runs before it", async () => {
  for (const [start, command] of [
    ["npm run build && pm2 start dist/main.js", "sh -c npm run build && exec node dist/main.js"],
    [
      "NODE_ENV=production tsc && NODE_ENV=production pm2-runtime dist/main.js",
      "sh -c npm exec --no --call 'env NODE_ENV=production tsc' && exec env NODE_ENV=production node dist/main.js",
    ],
    ["cd server && pm2 start app.js", "sh -c cd server && exec node app.js"],
    ["pm2 delete all && pm2 start app.js && pm2 logs", "node app.js"],
    ["yarn build && pm2 start app.js -- --port $PORT", "sh -c npm run build && exec node app.js --port '$PORT'"],
  ] as const)
    assert.equal(await startOf(start), command);
});

test("finds pm2 in the script that a start script runs", async () => {
  const scripts = { prod: "LEVEL=info npm run daemon", predaemon: "tsc", daemon: "pm2 start dist/main.js -i 2" };
  assert.equal(
    await startOf("npm run migrate && yarn prod", {}, scripts),
    "sh -c npm run migrate && env LEVEL=info npm run predaemon && exec env LEVEL=info node dist/main.js",
  );
});

test("leaves several programs of pm2, and scripts that call each other, to npm", async () => {
  for (const start of ["pm2 start a.js && pm2 start b.js", "npm run again", "pm2 start a.js && node b.js"])
    assert.equal(await startOf(start, {}, { again: "npm run start" }), "npm run start");
  assert.equal(
    await startOf("npm run daemon", {}, { daemon: "pm2 start a.js", postdaemon: "node b.js" }),
    "npm run start",
  );
});
