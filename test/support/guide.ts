import { readFile } from "node:fs/promises";
import path from "node:path";
import { type Ran, type RunOptions, runCli } from "../cli/run-cli.ts";

/** Returns the contents of the code blocks of a page, in their order. */
export async function blocksOf(page: string, language: string): Promise<string[]> {
  const text = await readFile(page, "utf8");
  return [...text.matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms)].flatMap(([, , found, block = ""]) =>
    found === language ? [block] : [],
  );
}

/** Returns the commands of the command line in the `sh` blocks of a page, in their order. */
export async function commandsOf(page: string): Promise<string[]> {
  const blocks = await blocksOf(page, "sh");
  return blocks.flatMap((block) => block.split("\n").filter((line) => line.startsWith("pierhead ")));
}

/** Runs a command of a page in a directory, as a shell would: words, and a file as its input. */
export async function runCommand(command: string, options: RunOptions & { cwd: string }): Promise<Ran> {
  const [words = "", input] = command.split(" < ");
  const stdin = input === undefined ? "" : await readFile(path.join(options.cwd, input), "utf8");
  return runCli(words.split(" ").slice(1), { ...options, stdin });
}
