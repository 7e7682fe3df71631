import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronDown, FolderUp, GitBranch, RotateCw } from "lucide-react";
import { useState } from "react";
import type { CreateRevision } from "../../../src/contract/revisions/revision.ts";
import { checkRef } from "../../../src/domain/refs.ts";
import type { SourceFile } from "../archive.ts";
import { problemFrom, queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { uploadSource } from "../upload-source.ts";
import { ActionMenu, type MenuAction } from "./action-menu.tsx";
import { Dialog } from "./dialog.tsx";
import { DropFolder } from "./drop-folder.tsx";
import { TextField } from "./fields.tsx";
import { useKeys } from "./keys.ts";
import { usePageActs } from "./page-acts.ts";
import { useToasts } from "./toasts.tsx";
import type { Deployment } from "./words.ts";

const usualWay = {
  github: "Deploy the latest commit",
  internal_source: "Deploy a folder …",
  internal_template: "Deploy the template again",
  external_docker: "Deploy the image again",
  internal_docker: "Deploy the image again",
} as const;

/** Deploys the usual way, with a menu of the other ways. The page then shows the new revision. */
export function DeployButton({ deployment, isPrimary }: { deployment: Deployment; isPrimary: boolean }) {
  const { mayChange } = useSession();
  const [asking, setAsking] = useState<"ref" | "folder" | null>(null);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const { create, latest, restart } = useDeploys(deployment);
  const { source, active_revision_id: active, source_config: settings, source_revision_config: config } = deployment;
  const deploy = () => {
    if (source === "internal_source") setAsking("folder");
    else if (source === "github") latest.mutate();
    else create.mutate({});
  };
  const actions: MenuAction[] = [
    {
      text: usualWay[source],
      note:
        source === "github"
          ? `of ${settings.repo_branch ?? config.repo_ref ?? "the branch"}`
          : "Creates a revision with current variables",
      icon: <GitBranch size={14} />,
      act: deploy,
    },
    ...(source === "github"
      ? [
          {
            text: "Another branch, tag or commit …",
            note: "Later deploys use it too",
            icon: <GitBranch size={14} />,
            act: () => setAsking("ref"),
          },
        ]
      : []),
    ...(active === null
      ? []
      : [
          {
            text: "Restart",
            note: "New replicas with the same code and variables",
            icon: <RotateCw size={14} />,
            act: () => restart.mutate(),
          },
        ]),
  ];
  if (source === "internal_source") actions[0] = { ...actions[0], icon: <FolderUp size={14} /> } as MenuAction;
  const hint = deployment.display_name ?? deployment.name;
  usePageActs(mayChange ? actions.map(({ text, icon, act }) => ({ text, hint, icon, act: () => act?.() })) : []);
  // A key alone deploys nothing: it opens the menu, where Enter takes the usual way.
  useKeys(mayChange ? { d: () => setMenuOpen(true) } : {});
  if (!mayChange) return null;
  return (
    <span className="split">
      <button
        type="button"
        className={isPrimary ? "split-main primary" : "split-main"}
        onClick={deploy}
        disabled={create.isPending || latest.isPending || restart.isPending}
      >
        Deploy
      </button>
      <ActionMenu
        isOpen={isMenuOpen}
        onOpenChange={setMenuOpen}
        trigger={
          <button
            type="button"
            className={isPrimary ? "split-more primary" : "split-more"}
            aria-label="More ways to deploy"
          >
            <ChevronDown size={14} />
          </button>
        }
        actions={actions}
      />
      {asking === "ref" && <RefDialog deployment={deployment} onClose={() => setAsking(null)} />}
      {asking === "folder" && <FolderDialog deployment={deployment} onClose={() => setAsking(null)} />}
    </span>
  );
}

/** The ways to deploy without more questions. Each shows the new revision. */
function useDeploys(deployment: Deployment) {
  const { client } = useSession();
  const { notifyError } = useToasts();
  const ids = { deployment_id: deployment.id };
  const after = { onError: notifyError, onSuccess: useShowRevisions(deployment) };
  return {
    create: useMutation({ mutationFn: (body: CreateRevision) => client.createRevision({ ...ids, body }), ...after }),
    latest: useMutation({ mutationFn: () => client.deployLatest(ids), ...after }),
    restart: useMutation({ mutationFn: () => client.restartDeployment(ids), ...after }),
  };
}

/** Returns a function that opens the list of revisions, where the new one is in progress. */
export function useShowRevisions({ id, tenant_id: tenantId }: Deployment) {
  const navigate = useNavigate();
  return () => {
    void queries.invalidateQueries({ queryKey: ["deployment", id] });
    void navigate({ to: "/o/$tenantId/host/deployments/$id/$part", params: { tenantId, id, part: "revisions" } });
  };
}

function RefDialog({ deployment, onClose }: { deployment: Deployment; onClose: () => void }) {
  const { client } = useSession();
  const [ref, setRef] = useState(deployment.source_revision_config.repo_ref ?? "");
  const showRevision = useShowRevisions(deployment);
  const send = useMutation({
    mutationFn: () =>
      client.createRevision({
        deployment_id: deployment.id,
        body: { source_revision_config: { repo_ref: ref.trim() } },
      }),
    onSuccess: () => {
      onClose();
      showRevision();
    },
  });
  return (
    <Dialog title="Deploy another branch, tag or commit" onClose={() => send.isPending || onClose()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send.mutate();
        }}
      >
        <TextField
          label="Branch, refs/tags/… or commit"
          value={ref}
          onValue={setRef}
          problem={problemOf(ref.trim())}
          hint="The deployment keeps it: the next deploy uses it too. The current revision serves until the new one is healthy."
        />
        {send.isError && (
          <p role="alert" className="bad-text">
            {textOf(send.error)}
          </p>
        )}
        <div className="row end">
          <button type="button" onClick={onClose} disabled={send.isPending}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={problemOf(ref.trim()) !== null || send.isPending}>
            {send.isPending ? "Deploying …" : "Deploy"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const problemOf = (ref: string) => problemFrom(() => checkRef("repo_ref", ref));

function FolderDialog({ deployment, onClose }: { deployment: Deployment; onClose: () => void }) {
  const { client } = useSession();
  const [files, setFiles] = useState<SourceFile[]>([]);
  const showRevision = useShowRevisions(deployment);
  const send = useMutation({
    mutationFn: () =>
      uploadSource(client, deployment.id, files, deployment.source_revision_config.langgraph_config_path),
    onSuccess: () => {
      onClose();
      showRevision();
    },
  });
  return (
    <Dialog title="Deploy a folder" onClose={() => send.isPending || onClose()}>
      <DropFolder files={files} onFiles={setFiles} />
      {send.isError && (
        <p role="alert" className="bad-text">
          {textOf(send.error)}
        </p>
      )}
      <div className="row end">
        <button type="button" onClick={onClose} disabled={send.isPending}>
          Cancel
        </button>
        <button
          type="button"
          className="primary"
          disabled={files.length === 0 || send.isPending}
          onClick={() => send.mutate()}
        >
          {send.isPending ? "Uploading …" : "Deploy this folder"}
        </button>
      </div>
    </Dialog>
  );
}
