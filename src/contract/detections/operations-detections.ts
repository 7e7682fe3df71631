import { operation } from "../operation.ts";
import { DetectArchiveQuery, Detection, DetectSource } from "./detection.ts";

const tag = "Detections";

/** What Pierhead would build from a source, before a deployment exists. Nothing is stored. */
export const detectionOperations = {
  detectSource: operation("detectSource", {
    operationId: "detect_source_v2_detections_post",
    tag,
    summary: "Show what would be built from a repository or a template",
    body: DetectSource,
    response: { status: 200, schema: Detection },
    errors: [
      "integrationNotFound",
      "invalidField",
      "templateUnknown",
      "codeHostFailed",
      "shareExceeded",
      "unavailable",
    ],
    role: "deployer",
  }),
  detectArchive: operation("detectArchive", {
    operationId: "detect_archive_v2_detections_archive_post",
    tag,
    summary: "Show what would be built from a source archive",
    query: DetectArchiveQuery,
    stream: "application/gzip",
    bodyRequired: true,
    response: { status: 200, schema: Detection },
    errors: ["invalidField", "uploadTooLarge", "uploadBroken", "shareExceeded", "unavailable", "diskFull"],
    role: "deployer",
  }),
};
