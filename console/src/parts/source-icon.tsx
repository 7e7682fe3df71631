import { Box, FolderUp, GitBranch, LayoutTemplate } from "lucide-react";
import type { SourceKind } from "../../../src/contract/deployments/deployment.ts";

const icons = {
  github: GitBranch,
  internal_source: FolderUp,
  internal_template: LayoutTemplate,
  external_docker: Box,
  internal_docker: Box,
} satisfies Record<SourceKind, typeof Box>;

/** The icon of a kind of source. The text beside it names the kind. */
export function SourceIcon({ of, size = 12 }: { of: SourceKind; size?: number }) {
  const Icon = icons[of];
  return <Icon size={size} className="in-text" />;
}
