import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
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

/** Builds `pythonImage` unless it exists. Needs no registry. */
export function importPythonImage(engine: Engine): Promise<void> {
  return importRoot(engine, pythonImage, (root) => {
    const python = readPlace();
    const dynamic = path.join(python.stdlib, "lib-dynload");
    const modules = readdirSync(dynamic).map((name) => path.join(dynamic, name));
    copyPrograms(
      root,
      { [python.executable]: python.executable, "/usr/bin/env": "/usr/bin/env", "/bin/sh": "/bin/sh" },
      [...modules, ...wheelLibraries()],
    );
    const filter = (file: string) => !leftOut.test(path.basename(file));
    cpSync(python.stdlib, path.join(root, python.stdlib), { recursive: true, filter });
    copyPip(path.join(root, python.purelib));
    mkdirSync(path.join(root, "usr/local/bin"), { recursive: true });
    symlinkSync(python.executable, path.join(root, "usr/local/bin/python"));
  });
}

function readPlace(): Place {
  const script =
    "import json,os,sys,sysconfig as s;print(json.dumps(dict(executable=os.path.realpath(sys.executable),prefix=sys.base_prefix," +
    "stdlib=s.get_path('stdlib'),purelib=s.get_path('purelib'))))";
  return JSON.parse(execFileSync("python3", ["-I", "-c", script], { encoding: "utf8" })) as Place;
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

function copyPip(target: string): void {
  const directory = mkdtempSync(path.join(tmpdir(), "pierhead-pip-"));
  try {
    execFileSync("python3", ["-m", "venv", directory]);
    const lib = path.join(directory, "lib", readdirSync(path.join(directory, "lib"))[0] ?? "", "site-packages");
    for (const name of readdirSync(lib).filter((one) => one.startsWith("pip"))) {
      cpSync(path.join(lib, name), path.join(target, name), { recursive: true });
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
