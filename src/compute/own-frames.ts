/** Frames of packages and of the language itself: no user can change them, and they push the frames of the project out of view. */
const library =
  /[\\/](?:site-packages|dist-packages|node_modules)[\\/]|[\\/]lib[\\/]python3\.\d+[\\/](?!site-packages)|<frozen |\bnode:internal\b|\bnode:[a-z_]+:\d/;

const pythonFrame = /^(\s*(?:\|\s*)*)File "([^"]*)", line \d+/;
const nodeFrame = /^\s+at .*(?:\(|\s)(?:file:\/\/)?[^()\s]+:\d+(?::\d+)?\)?$/;

/** Paths of artifacts begin with a directory of this server, whose name is a digest. */
const artifactDirectory = /(?:file:\/\/)?\/[^\s"'()]*?\/artifacts\/[0-9a-f]{64}\//g;

/** Removes the frames of libraries from the tracebacks in a log, and shortens paths of the project to what its user knows. */
export function ownFrames(lines: readonly string[]): string[] {
  const kept: string[] = [];
  let dropped: number | undefined;
  for (const line of lines) {
    const [, indent = "", file] = pythonFrame.exec(line) ?? [];
    if (file !== undefined) {
      dropped = library.test(file) ? indent.length : undefined;
    } else if (dropped !== undefined && !isInsideFrame(line, dropped)) {
      dropped = undefined;
    }
    if (dropped !== undefined || (nodeFrame.test(line) && library.test(line))) continue;
    kept.push(line.replaceAll(artifactDirectory, ""));
  }
  return kept;
}

/** Python shows the source of a frame, and marks below it, indented deeper than the frame. */
const isInsideFrame = (line: string, indent: number) => line.search(/[^\s|]/) > indent;
