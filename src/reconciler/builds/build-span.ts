import type { BuildLine, BuildResult } from "../../builds/build.ts";
import { type Span, withSpan } from "../../telemetry/traces.ts";

/** Matches "Step 3/6: Install dependencies" in a build log. Of a fetch it captures only the verb, not the address. */
const phasePattern = /^Step \d+\/\d+: (Fetch|[\w ]+)/;

/** Runs a build in a span under the pass that started it, with one child span for each phase of the build. */
export function inBuildSpan(
  revision: { id: string; deploymentId: string; tenantId: string },
  write: (line: BuildLine) => void,
  build: (onLine: (line: BuildLine) => void) => Promise<BuildResult>,
): Promise<BuildResult> {
  const { id, deploymentId, tenantId } = revision;
  const attributes = { revision_id: id, deployment_id: deploymentId, workspace_id: tenantId };
  return withSpan("build", attributes, async (span) => {
    if (span === undefined) return build(write);
    let phase: Span | undefined;
    const result = await build((line) => {
      const found = line.stream === "pierhead" ? phasePattern.exec(line.message) : null;
      if (found !== null) {
        phase?.end(line.timestamp);
        phase = span.begin("build.phase", { phase: found[1] }, line.timestamp);
      }
      write(line);
    });
    const isCancelled = !result.ok && result.reason === "Cancelled";
    span.set({ outcome: result.ok ? "succeeded" : isCancelled ? "cancelled" : "failed" });
    if (!result.ok && !isCancelled) for (const failed of [phase, span]) failed?.fail(result.reason);
    phase?.end();
    return result;
  });
}
