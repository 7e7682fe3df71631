import { isNoise } from "../base/log-noise.ts";
import { inArtifact } from "./artifact-paths.ts";

/** Frames of packages, of the language and of our own programs: no user can change them, and they push the frames of the project out of view. */
const library =
  /[\\/]compute[\\/]process[\\/]langgraph[\\/]|[\\/]opt[\\/]pierhead[\\/]|[\\/](?:site-packages|dist-packages|node_modules)[\\/]|[\\/]lib[\\/]python3\.\d+[\\/]|<frozen |\bnode:internal\b|\bnode:[a-z_]+:\d/;

const pythonFrame = /^([\s|]*)File "([^"]*)", line (\d+)/;
const nodeFrame = /^\s+at \S/;

/** Longer lines are no frames. The limit keeps a hostile line from costing seconds. */
const frameCharsMax = 1_000;

interface Frame {
  lines: string[];
  isOwn: boolean;
  /** Of a frame of Python, whose source lines are indented deeper; undefined: a frame of Node, which has none. */
  indent: number | undefined;
}

/**
 * Removes the frames of libraries from the tracebacks in a log, and lines of package managers that explain nothing, and shortens paths of the project to what its user knows. A
 * traceback without other frames keeps the one in which the error was raised.
 */
export function ownFrames(lines: readonly string[]): string[] {
  const kept: string[] = [];
  let frames: Frame[] = [];
  const endTraceback = () => {
    const own = frames.filter(({ isOwn }) => isOwn);
    // Python prints the call first, Node the error.
    const raised = frames.at(-1)?.indent === undefined ? frames.slice(0, 1) : frames.slice(-1);
    kept.push(...(own.length > 0 ? own : raised).flatMap((frame) => frame.lines));
    frames = [];
  };
  for (const line of lines) {
    if (isNoise(line)) continue;
    const last = frames.at(-1);
    const frame = frameOf(line);
    if (last?.indent !== undefined && frame?.indent === undefined && line.search(/[^\s|]/) > last.indent) {
      last.lines.push(line);
    } else if (frame !== undefined) {
      frames.push(frame);
    } else {
      endTraceback();
      kept.push(line);
    }
  }
  endTraceback();
  return kept.map((line) => (line.length > frameCharsMax ? line : inArtifact(line)));
}

/** Returns where a frame is; null: the line is no frame. */
export function frameLocation(line: string): { file: string; line: string; isOwn: boolean } | null {
  if (line.length > frameCharsMax) return null;
  const [, , python, at = ""] = pythonFrame.exec(line) ?? [];
  if (python !== undefined) return { file: inArtifact(python), line: at, isOwn: !library.test(python) };
  if (!nodeFrame.test(line)) return null;
  // Only the last word is searched: a search from every character would take quadratic time.
  const word =
    line
      .replace(/\)$/, "")
      .split(/[\s()]/)
      .at(-1) ?? "";
  const [, file, number = ""] = /^(.+):(\d+):\d+$/.exec(word) ?? [];
  if (file === undefined) return null;
  return { file: inArtifact(file), line: number, isOwn: !library.test(line) };
}

function frameOf(line: string): Frame | undefined {
  if (line.length > frameCharsMax) return undefined;
  const [, indent, file] = pythonFrame.exec(line) ?? [];
  if (file !== undefined) return { lines: [line], isOwn: !library.test(file), indent: indent?.length ?? 0 };
  return nodeFrame.test(line) ? { lines: [line], isOwn: !library.test(line), indent: undefined } : undefined;
}
