import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";

interface Service {
  image: string;
  ports?: string[];
  network_mode?: string;
  environment: Record<string, string>;
}

const text = readFileSync("deploy/compose.yaml", "utf8");
const { services } = parse(text, { merge: true }) as { services: Record<string, Service> };

test("compose.yaml sets only variables that the server reads, and nothing but Caddy is reachable from outside", () => {
  const documented = readFileSync("docs/reference/configuration.md", "utf8");
  for (const name of Object.keys(services["pierhead"]?.environment ?? {}))
    assert.ok(documented.includes(`| \`${name}\` |`), name);
  assert.equal(services["pierhead"]?.environment["HOST"], "127.0.0.1");
  for (const [name, { ports = [], network_mode }] of Object.entries(services)) {
    if (network_mode === "host") assert.ok(["pierhead", "caddy"].includes(name), name);
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:/, name);
  }
});

test("compose.yaml names at its top each setting that has no default", () => {
  const required = [...text.matchAll(/\$\{([A-Z_]+):\?/g)].map(([, name]) => name as string);
  const head = text.slice(0, text.indexOf("\nname:"));
  assert.deepEqual(
    required.filter((name) => !head.includes(`${name}=`)),
    [],
  );
});
