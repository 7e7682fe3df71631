import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { buildEnvironment, findPrograms } from "../../src/builds/worker/environment.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { copyPrograms, importRoot } from "./base-image.ts";

/** Python and pip, copied from this machine: 150 MB. */
export const pythonImage = "pierhead-test/python:3";

/** Modules that no server imports, what a distribution forbids in its Python, and packages of this machine. */
const leftOut =
  /^(__pycache__|test|tests|idlelib|tkinter|turtledemo|lib2to3|config-.*|site-packages|dist-packages|EXTERNALLY-MANAGED)$/;

interface Place {
  executable: string;
  prefix: string;
  stdlib: string;
  purelib: string;
}

/** The same with Python 3.12, which some agent servers need. */
export const newerPythonImage = "pierhead-test/python:3.12";

/** Builds `pythonImage` unless it exists. Needs no registry. */
export const importPythonImage = (engine: Engine): Promise<void> => importPython(engine, pythonImage, "python3");

/** Builds `newerPythonImage` unless it exists. */
export function importNewerPythonImage(engine: Engine): Promise<void> {
  // As a build finds it: version managers put programs first that answer for the chosen version only.
  const { PATH = "" } = buildEnvironment(process.env, {
    ...{ buildId: "none", workerPid: process.pid, nodePath: process.execPath },
    ...{ homeDir: "/", tempDir: "/", cacheDir: "/" },
  });
  const program = findPrograms("python3.12", PATH).find((one) => spawnSync(one, ["-I", "-c", ""]).status === 0);
  if (program === undefined) throw new Error("Python 3.12 is not installed");
  return importPython(engine, newerPythonImage, program);
}

function importPython(engine: Engine, name: string, program: string): Promise<void> {
  return importRoot(engine, name, (root) => {
    const python = readPlace(program);
    const dynamic = path.join(python.stdlib, "lib-dynload");
    const modules = readdirSync(dynamic).map((name) => path.join(dynamic, name));
    copyPrograms(
      root,
      { [python.executable]: python.executable, "/usr/bin/env": "/usr/bin/env", "/bin/sh": "/bin/sh" },
      [...modules, ...wheelLibraries()],
    );
    const filter = (file: string) => !leftOut.test(path.basename(file));
    cpSync(python.stdlib, path.join(root, python.stdlib), { recursive: true, filter });
    copyPip(program, path.join(root, python.purelib));
    mkdirSync(path.join(root, "usr/local/bin"), { recursive: true });
    symlinkSync(python.executable, path.join(root, "usr/local/bin/python"));
  });
}

function readPlace(program: string): Place {
  const script =
    "import json,os,sys,sysconfig as s;print(json.dumps(dict(executable=os.path.realpath(sys.executable),prefix=sys.base_prefix," +
    "stdlib=s.get_path('stdlib'),purelib=s.get_path('purelib'))))";
  return JSON.parse(execFileSync(program, ["-I", "-c", script], { encoding: "utf8" })) as Place;
}

/** Libraries that packages from the index link against but Python does not. */
function wheelLibraries(): string[] {
  const known = execFileSync("/sbin/ldconfig", ["-p"], { encoding: "utf8" });
  const names = ["libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"];
  return names.flatMap((name) => {
    const [, file] = new RegExp(`${name.replaceAll("+", "\\+")} .*x86-64.* => (\\S+)`).exec(known) ?? [];
    return file !== undefined && existsSync(file) ? [file] : [];
  });
}

function copyPip(program: string, target: string): void {
  const directory = mkdtempSync(path.join(tmpdir(), "pierhead-pip-"));
  try {
    execFileSync(program, ["-m", "venv", directory]);
    const lib = path.join(directory, "lib", readdirSync(path.join(directory, "lib"))[0] ?? "", "site-packages");
    for (const name of readdirSync(lib).filter((one) => one.startsWith("pip"))) {
      cpSync(path.join(lib, name), path.join(target, name), { recursive: true });
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
