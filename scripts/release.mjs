// npm run release [-- --out DIRECTORY]: makes everything that a release publishes in dist/release, with checksums and a bill of materials, and prints the
// commands that publish it. `npm run release -- --publish` also runs them: that is for a person, or for a CI job with an identity.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { root } from "./ensure.mjs";

const argv = process.argv.slice(2);
const option = (name, fallback) => (argv.includes(name) ? argv[argv.indexOf(name) + 1] : fallback);
const parts = option("--only", "npm,python,charts").split(",");
const registry = option("--registry", "registry.example.com/pierhead");
const helm = process.env.HELM || "helm";
const target = path.resolve(option("--out", path.join(root, "dist", "release")));
const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
const commit = run("git", ["rev-parse", "HEAD"], { capture: true });

if (argv.includes("--publish") && run("git", ["status", "--porcelain"], { capture: true }) !== "")
  fail("the work tree has changes that no commit has");
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });

if (parts.includes("npm")) {
  const client = mkdtempSync(path.join(tmpdir(), "pierhead-client-"));
  run(process.execPath, ["scripts/client-package.mjs", client]);
  for (const from of [root, client])
    run("npm", ["pack", "--ignore-scripts", "--pack-destination", target], { cwd: from, capture: true });
  rmSync(client, { recursive: true });
  const bill = ["sbom", "--package-lock-only", "--sbom-format", "cyclonedx", "--omit", "dev"];
  writeFileSync(path.join(target, `pierhead-${version}.cdx.json`), `${run("npm", bill, { capture: true })}\n`);
}
if (parts.includes("python")) {
  run(process.execPath, ["scripts/python-client.mjs"]);
  const wheels = path.join(root, "dist", "python");
  for (const file of readdirSync(wheels)) writeFileSync(path.join(target, file), readFileSync(path.join(wheels, file)));
}
// A chart and an npm package have the same file name.
const charts = path.join(target, "charts");
mkdirSync(charts);
if (parts.includes("charts")) {
  for (const chart of ["pierhead", "pierhead-listener"])
    run(helm, [
      "package",
      `deploy/helm/${chart}`,
      "--destination",
      charts,
      "--version",
      version,
      "--app-version",
      version,
    ]);
}

const made = readdirSync(target, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.relative(target, path.join(entry.parentPath, entry.name)))
  .sort();
const digest = (file) =>
  createHash("sha256")
    .update(readFileSync(path.join(target, file)))
    .digest("hex");
writeFileSync(path.join(target, "SHA256SUMS"), made.map((file) => `${digest(file)}  ${file}\n`).join(""));
// Says what was built from what (in-toto). npm and buildx add a signed one of their own where a job has an identity.
const statement = {
  _type: "https://in-toto.io/Statement/v1",
  subject: made.map((file) => ({ name: file, digest: { sha256: digest(file) } })),
  predicateType: "https://slsa.dev/provenance/v1",
  predicate: {
    buildDefinition: {
      buildType: "https://pierhead.dev/release/v1",
      externalParameters: { command: "npm run release", version },
      resolvedDependencies: [
        { uri: `git:${process.env.GITHUB_REPOSITORY || "pierhead"}@${commit}`, digest: { gitCommit: commit } },
      ],
    },
    runDetails: { builder: { id: process.env.GITHUB_WORKFLOW_REF || "a person's machine" } },
  },
};
writeFileSync(path.join(target, "provenance.json"), `${JSON.stringify(statement, null, 2)}\n`);

const isChart = (file) => file.startsWith(`charts${path.sep}`);
const tarballs = made.filter((file) => file.endsWith(".tgz"));
const image = `${registry}/pierhead:${version}`;
const build = [
  "buildx",
  "build",
  "--file",
  "deploy/Dockerfile",
  "--platform",
  "linux/amd64,linux/arm64",
  "--tag",
  image,
];
const publish = [
  ...tarballs
    .filter((file) => !isChart(file))
    .map((file) => ["npm", ["publish", path.join(target, file), "--access", "public", "--provenance"]]),
  ...made
    .filter((file) => file.endsWith(".whl"))
    .map((file) => ["python3", ["-m", "twine", "upload", path.join(target, file)]]),
  ...tarballs.filter(isChart).map((file) => [helm, ["push", path.join(target, file), `oci://${registry}/charts`]]),
  ["docker", [...build, "--provenance=mode=max", "--sbom=true", "--push", "."]],
];
console.log(
  `\n${path.relative(root, target)}:\n${[...made, "SHA256SUMS", "provenance.json"].map((file) => `  ${file}`).join("\n")}`,
);
console.log(`\n${argv.includes("--publish") ? "Publishing" : "To publish, as a person or a CI job with an identity"}:`);
for (const [program, args] of publish) {
  console.log(`  ${program} ${args.join(" ")}`);
  if (argv.includes("--publish")) run(program, args);
}

function run(program, args, { cwd = root, capture = false } = {}) {
  const ended = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["ignore", capture ? "pipe" : "inherit", "inherit"],
  });
  if (ended.status !== 0) fail(`${program} ${args.join(" ")} failed${ended.error ? `: ${ended.error.message}` : ""}`);
  return (ended.stdout ?? "").trim();
}

function fail(what) {
  console.error(`release: ${what}`);
  process.exit(1);
}
