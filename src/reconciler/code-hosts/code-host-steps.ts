import { deleteWatch } from "../../store/code-hosts/branch-watches.ts";
import type { CodeHostSteps } from "../deps.ts";
import { done } from "../steps/performed.ts";
import type { CodeHostDeps } from "./code-host-deps.ts";
import { inspectBranch } from "./inspect-branch.ts";
import { reportToHost } from "./report.ts";

/** Creates the steps that follow branches, keep previews in sync and report to code hosts. */
export function createCodeHostSteps(deps: CodeHostDeps): CodeHostSteps {
  return {
    inspectBranch: (state, signal) => inspectBranch(deps, state, signal),
    reportToHost: (state, signal) => reportToHost(deps, state, signal),
    async unfollowBranch(state) {
      await deleteWatch(deps.db, state.id);
      return done;
    },
  };
}
