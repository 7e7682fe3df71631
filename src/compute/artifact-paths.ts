/** The directory of an artifact on this server, whose name is a digest. It follows a quote, a bracket or a space. */
const artifactDirectory = /(?<![^\s"'()])(?:file:\/\/)?\/[^\s"'()]*?\/artifacts\/[0-9a-f]{64}\//g;

/** Shortens the paths in a line of log, at most 1,000 characters, to what the user of a project knows: `/srv/.../artifacts/<digest>/src/agent.py` becomes `src/agent.py`. */
export const inArtifact = (line: string) => line.replaceAll(artifactDirectory, "");
