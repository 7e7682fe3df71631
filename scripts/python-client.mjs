// npm run python-client: builds dist/python/pierhead-*.whl. Generates pierhead.rest from docs/reference/openapi.json, and checks
// the types. Needs Python >= 3.11; the programs it needs are installed into clients/python/.venv.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { root } from "./ensure.mjs";

const directory = path.join(root, "clients", "python");
const environment = path.join(directory, ".venv");
const python = path.join(environment, "bin", "python");
const generated = path.join(directory, "src", "pierhead", "rest");
const work = path.join(directory, "build");

installPrograms();
rmSync(work, { recursive: true, force: true });
mkdirSync(work);
const document = path.join(work, "openapi.json");
writeFileSync(document, JSON.stringify(readDocument()));
rmSync(generated, { recursive: true, force: true });
// It warns about two uploads and a download of archives, which the helpers make themselves.
run("openapi-python-client", ["generate", "--path", document, "--output-path", generated, "--meta", "none"]);
rmSync(work, { recursive: true });
run("mypy", []);
const wheels = path.join(root, "dist", "python");
rmSync(wheels, { recursive: true, force: true });
run("python", ["-m", "build", "--wheel", "--no-isolation", "--outdir", wheels]);
console.log(`built ${path.join("dist", "python", readdirSync(wheels)[0])}`);

/** Names the functions after the operations alone: `list_deployments` instead of `list_deployments_v2_deployments_get`. */
function readDocument() {
  const text = readFileSync(path.join(root, "docs", "reference", "openapi.json"), "utf8");
  const read = JSON.parse(text);
  const operations = Object.values(read.paths).flatMap((item) => Object.values(item).filter((one) => one.operationId));
  const short = (id) => id.replace(/_(?:v\d|dp)_.*$/, "");
  const count = Map.groupBy(operations, ({ operationId }) => short(operationId));
  for (const operation of operations) {
    const name = short(operation.operationId);
    if (count.get(name).length === 1) operation.operationId = name;
  }
  return read;
}

/** Installs the programs of build-requirements.txt unless they are installed. */
function installPrograms() {
  const list = readFileSync(path.join(directory, "build-requirements.txt"), "utf8");
  const stamp = path.join(environment, ".pierhead-installed");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === list) return;
  rmSync(environment, { recursive: true, force: true });
  start("python3", ["-m", "venv", environment]);
  start(python, ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "build-requirements.txt"]);
  writeFileSync(stamp, list);
}

function run(program, argv) {
  start(path.join(environment, "bin", program), argv);
}

function start(program, argv) {
  const bin = path.join(environment, "bin");
  const env = { ...process.env, PATH: `${bin}${path.delimiter}${process.env.PATH}` };
  const ended = spawnSync(program, argv, { cwd: directory, encoding: "utf8", env });
  if (ended.status === 0) return;
  console.error(`${ended.stdout ?? ""}${ended.stderr ?? ""}\n${path.basename(program)} failed ${ended.error ?? ""}`);
  process.exit(1);
}
