import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Project } from "./table.ts";

/** A page of docs/frameworks as a reader follows it: its files, its commands, and what each command prints. */
export interface Page {
  name: string;
  needs: Project["needs"];
  steps: Step[];
}

export type Step =
  | { kind: "file"; path: string; content: string }
  | { kind: "command"; command: string; output: string | undefined; line: number };

const directory = path.resolve("docs/frameworks");

/** Returns all pages but the index, by name. */
export function readPages(): Page[] {
  const files = readdirSync(directory).filter((file) => file.endsWith(".md") && file !== "README.md");
  return files
    .sort()
    .map((file) => readPage(file.slice(0, -".md".length), readFileSync(path.join(directory, file), "utf8")));
}

/**
 * Returns the steps of a page. A block under a line `` `PATH`: `` is a file. A block `sh` is commands, and a block `text` or `json`
 * right after it is their output.
 * @throws if another block exists: nothing on these pages is left out of the test.
 */
export function readPage(name: string, text: string): Page {
  const steps: Step[] = [];
  const lines = text.split("\n");
  let before = "";
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const language = /^```(\w*)$/.exec(line)?.[1];
    if (language === undefined) {
      if (line.trim() !== "") before = line;
      continue;
    }
    const end = lines.indexOf("```", at + 1);
    if (end === -1) throw new Error(`${name}.md:${at + 1}: the block does not end`);
    const block = lines.slice(at + 1, end).join("\n");
    const file = /^`([^`]+)`:$/.exec(before)?.[1];
    const last = steps.at(-1);
    if (file !== undefined) steps.push({ kind: "file", path: file, content: `${block}\n` });
    else if (language === "sh") steps.push({ kind: "command", command: block, output: undefined, line: at + 1 });
    else if ((language === "text" || language === "json") && before === "```" && last?.kind === "command")
      last.output = block;
    else throw new Error(`${name}.md:${at + 1}: the block is neither a file nor a command nor its output`);
    at = end;
    before = "```";
  }
  const files = steps.flatMap((step) => (step.kind === "file" ? [path.basename(step.path)] : []));
  const isJavaScript = files.includes("package.json");
  const isPython = files.some((file) => file === "requirements.txt" || file === "pyproject.toml");
  return {
    name,
    needs: [...(isJavaScript ? (["npm"] as const) : []), ...(isPython ? (["pypi"] as const) : [])],
    steps,
  };
}

/**
 * Whether a command printed what its page shows. A line `…` stands for any lines. Times, sizes, ports, paths and identifiers differ
 * from run to run.
 */
export function isAsShown(shown: string, printed: string): boolean {
  const pattern = stable(shown)
    .split("\n")
    .map((line) => (line.trim() === "…" ? "(?:[^\\n]*\\n)*?" : `${literal(line)}\\n`))
    .join("");
  return new RegExp(`^${pattern}$`).test(`${stable(printed)}\n`);
}

const literal = (line: string) => line.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");

function stable(text: string): string {
  return text
    .trimEnd()
    .replaceAll("\r", "")
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, "UUID")
    .replaceAll(/(?<=[\s-])[0-9a-f]{8}(?:[0-9a-f]{4})?\b/g, "ID")
    .replaceAll(/\b(\d+ min )?\d+(\.\d+)? (ms|s|B|kB|KiB|MB|MiB)\b/g, "SIZE")
    .replaceAll(/\b1\d{9}(?:\d{3}|\.\d+)\b/g, "TIME")
    .replaceAll(/127\.0\.0\.1:\d+/g, "ADDRESS")
    .replaceAll(/(?<= from )\/\S+/g, "PATH")
    .replaceAll(/[ \t]+/g, " ")
    .replaceAll(/ $/gm, "");
}
