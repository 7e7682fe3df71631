import { chmod, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { withFittingPython } from "./interpreter.ts";
import { packagesDirName } from "./local-packages.ts";
import { ownProgramsName } from "./server-environment.ts";
import { makeEmptyEnvironment, sharedEnvironment } from "./shared-environment.ts";
import { findOrInstallUv } from "./uv.ts";

const anyVersion = { version: null, from: "", isPreference: false, ranges: [] };

/**
 * Returns an environment with programs that run beside a Python server. It is not the server's own, because the packages of such
 * a program may exclude those of the project.
 * @param tools requirements, each with the name of its program: `mcp-proxy>=0.8`.
 * @returns its absolute directory
 * @throws BuildFailure `ToolchainFailed`
 */
export async function toolEnvironment(given: BuildContext, tools: readonly string[]): Promise<string> {
  const { uv, context } = await findOrInstallUv(given);
  // All projects share it, so it must not depend on modules and settings in the source of the first one.
  const outside = { ...context, sourceDir: path.dirname(context.sourceDir) };
  return withFittingPython(context, { wanted: anyVersion, uv }, (interpreter) =>
    sharedEnvironment(context, { interpreter, uv }, ["tools", tools], async (draft) => {
      await makeEmptyEnvironment(outside, { interpreter, uv }, draft);
      const python = path.join(draft, "bin", "python");
      const installer = uv === null ? [python, "-m", "pip", "install"] : [uv, "pip", "install", "--python", python];
      const shown = [...(uv === null ? [] : ["uv"]), "pip", "install", ...tools];
      await runCommand(outside, { argv: [...installer, ...tools], shown, cwd: ".", env: {} }, "ToolchainFailed");
    }),
  );
}

/** Puts the programs of a tool environment among those of the project. */
export async function layOutTools(toolDir: string, sourceDir: string, tools: readonly string[]): Promise<void> {
  const bin = path.join(sourceDir, packagesDirName, ownProgramsName);
  await mkdir(bin, { recursive: true });
  for (const name of tools.map(toolName)) {
    await writeFile(path.join(bin, name), toolLauncher(toolDir, name));
    await chmod(path.join(bin, name), 0o755);
  }
}

export const toolName = (requirement: string): string => /^[\w-]+/.exec(requirement)?.[0] ?? "";

/** Isolated, the program does not import the modules of the project, whose directories the server has on its path. */
export const toolLauncher = (toolDir: string, name: string): string =>
  `#!/bin/sh\nexec "${toolDir}/bin/python" -I -u "${toolDir}/bin/${name}" "$@"\n`;
