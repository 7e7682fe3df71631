import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Engine } from "../../../src/compute/docker/engine/engine.ts";
import { eventually } from "../../support/eventually.ts";
import { buildAgentImage } from "../base-image.ts";
import { startDockerdApart } from "../dockerd.ts";
import { buildCompose, copyImages, imagesOfNames, makeComposeImages } from "./images.ts";

const [domain, agentsDomain] = ["pierhead.localhost", "agents.localhost"];

/** Answers with the address of its database, the text that the first request left in it, and its version. */
const agent = (version: string) => `
  import { createServer } from "node:http";
  createServer((asked, answer) => {
    if (asked.url === "/ok") return answer.end("ok");
    const { protocol } = new URL(process.env.DATABASE_URI ?? process.env.POSTGRES_URI ?? "none:");
    answer.end(${JSON.stringify(version)} + " with " + protocol);
  }).listen(process.env.PORT, "0.0.0.0");
`;
const agentImages = { "hello-agent:1": "one", "hello-agent:2": "two" };

/**
 * Follows the head of `deploy/compose.yaml` with Docker Compose: starts everything, signs in, deploys, pushes an image, updates
 * Pierhead, and restores a backup on new volumes. Certificates come from Caddy's local authority, as for every name in `localhost`.
 * @param engine an engine with `image`, that of Pierhead
 */
export async function runCompose(engine: Engine, image: string): Promise<void> {
  const built = await buildCompose();
  assert.ok("path" in built, "missing" in built ? built.missing : "");
  await makeComposeImages(engine);
  for (const [name, version] of Object.entries(agentImages)) await buildAgentImage(engine, name, agent(version));
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-compose-"));
  const settings = path.join(directory, "docker");
  mkdirSync(settings);
  const apart = await startDockerdApart(settings, domain);
  try {
    const names = { ...imagesOfNames, pierhead: image };
    copyImages(engine.host, apart.host, [...Object.values(names), ...Object.keys(agentImages)], directory);
    const docker = (...args: string[]) =>
      execFileSync("docker", ["--host", apart.host, ...args], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      });
    for (const [name, of] of Object.entries(names)) docker("tag", of, name);
    await follow({ directory, settings, docker, compose: built.path, ...apart });
  } finally {
    await apart.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

interface Machine {
  pid: number;
  host: string;
  directory: string;
  settings: string;
  compose: string;
  docker(...args: string[]): string;
}

async function follow({ pid, host, directory, settings, compose: composeProgram, docker }: Machine): Promise<void> {
  // The other mount namespace begins at its root.
  const inDirectory = 'cd "$0" && exec "$@"';
  const inside = (argv: string[], input?: Buffer) =>
    execFileSync(
      "nsenter",
      ["--target", String(pid), "--net", "--mount", "--", "sh", "-c", inDirectory, directory, ...argv],
      {
        ...{
          maxBuffer: 1e8,
          env: { ...process.env, DOCKER_HOST: host, DOCKER_CONFIG: path.join(directory, "client") },
        },
        ...(input === undefined ? {} : { input }),
      },
    );
  const compose = (args: string[], input?: Buffer) => inside([composeProgram, ...args], input);
  const pierhead = (...args: string[]) =>
    compose(["exec", "-T", "pierhead", "pierhead", ...args])
      .toString()
      .trim();
  for (const file of ["compose.yaml", "Caddyfile"]) copyFileSync(`deploy/${file}`, path.join(directory, file));
  const hex = () => randomBytes(24).toString("hex");
  const variables = {
    ...{ PIERHEAD_DOMAIN: domain, PIERHEAD_AGENTS_DOMAIN: agentsDomain },
    DOCKER_GROUP_ID: inside(["stat", "-c", "%g", "/var/run/docker.sock"]).toString().trim(),
    ...{ POSTGRES_PASSWORD: hex(), PIERHEAD_MASTER_KEY: randomBytes(32).toString("hex") },
    ...{ PIERHEAD_ADMIN_KEY: hex(), PIERHEAD_METRICS_TOKEN: hex() },
  };
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  writeFileSync(path.join(directory, ".env"), `${lines.join("\n")}\n`);
  makeCertificate(path.join(directory, "certificates"));
  compose(["up", "-d", "--wait"]);
  const root = path.join(directory, "root.crt");
  const trusted = async () => {
    await eventually(
      () => {
        try {
          compose(["cp", "caddy:/data/caddy/pki/authorities/local/root.crt", root]);
          return curl("/ok").endsWith("200");
        } catch {
          return false;
        }
      },
      (isUp) => isUp,
      { timeoutMs: 60_000, what: "the console behind TLS" },
    );
  };
  /** Returns headers, body and the status at the end. */
  const curl = (target: string, ...options: string[]) => {
    const url = target.startsWith("https:") ? target : `https://${domain}${target}`;
    const trust = url.includes(agentsDomain) ? path.join(directory, "certificates/agents.pem") : root;
    const fixed = ["--silent", "--show-error", "--include", "--max-time", "30", "--write-out", "\n%{http_code}"];
    return inside(["curl", ...fixed, "--cacert", trust, ...options, url]).toString();
  };
  await trusted();

  const link = pierhead("open");
  assert.ok(link.startsWith(`https://${domain}/`), link);
  const address = pierhead("deploy", "--image", "hello-agent:1", "--name", "hello");
  assert.match(address, new RegExp(`^https://hello[a-z0-9-]*\\.${agentsDomain.replace(".", "\\.")}`));
  assert.match(curl(address), /one with postgres/);

  // As docs/guides/docker.md: the engine trusts Caddy's authority here, which is a public one elsewhere.
  mkdirSync(path.join(settings, "certs.d", domain), { recursive: true });
  copyFileSync(root, path.join(settings, "certs.d", domain, "ca.crt"));
  const asDeveloper = {
    ...{ PIERHEAD_URL: `https://${domain}`, PIERHEAD_API_KEY: variables.PIERHEAD_ADMIN_KEY },
    ...{ NODE_EXTRA_CA_CERTS: root, HOME: directory },
  };
  const outside = Object.entries(asDeveloper).map(([name, value]) => `${name}=${value}`);
  const program = [process.execPath, path.resolve("src/main.ts"), "push", "hello-agent:2", "--name", "pushed"];
  const pushed = inside(["env", ...outside, ...program])
    .toString()
    .trim();
  assert.match(curl(pushed), /two with postgres/);

  // Agents answer while Pierhead itself is replaced: not through it, but at once when it is back.
  const containers = () =>
    docker("ps", "--quiet", "--no-trunc", "--filter", "label=pierhead.dev/deployment").split("\n").sort();
  const before = containers();
  compose(["up", "-d", "--wait", "--force-recreate", "--no-deps", "pierhead"]);
  await trusted();
  assert.match(curl(address), /one with postgres/);
  assert.deepEqual(containers(), before);

  const backup = compose(["exec", "-T", "pierhead", "pierhead", "backup", "-"]);
  compose(["down", "--volumes", "--timeout", "20"]);
  compose(["run", "--rm", "-T", "pierhead", "restore", "-"], backup);
  compose(["up", "-d", "--wait"]);
  await trusted();
  const { deployments } = JSON.parse(pierhead("list", "--json"));
  assert.deepEqual(deployments.map(({ name }: { name: string }) => name).sort(), ["hello", "pushed"]);
  await eventually(
    () => curl(address),
    (answer) => answer.includes("one with postgres"),
    { timeoutMs: 60_000, what: "the agent after the restore" },
  );
}

/** Makes the certificate that stock Caddy cannot get. */
function makeCertificate(directory: string): void {
  mkdirSync(directory);
  const names = `subjectAltName=DNS:*.${agentsDomain}`;
  const files = ["-keyout", "agents-key.pem", "-out", "agents.pem"];
  const kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=agents", "-addext", names];
  execFileSync("openssl", ["req", ...kind, ...files], { cwd: directory, stdio: "ignore" });
}
