import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { MessagesSquare } from "lucide-react";
import { useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { configPathProblem } from "../../../src/domain/config-path.ts";
import type { SourceFile } from "../archive.ts";
import { queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { uploadSource } from "../upload-source.ts";
import { Address } from "./address.tsx";
import { causeOf, RevisionCause } from "./cause.tsx";
import { CommandLine } from "./command-line.tsx";
import { TextField } from "./fields.tsx";
import { BuildLog } from "./log-view.tsx";
import { Failure, Loading, Notice } from "./notices.tsx";
import { usePageTitle } from "./page-title.ts";
import { numberText, RevisionStatusMark } from "./revision-words.tsx";
import { isFailure, isInProgress, Status } from "./status.tsx";
import { StepBar } from "./step-bar.tsx";

interface Props {
  deploymentId: string;
  /** The uploaded files, while the page still has them. */
  files: SourceFile[];
}

/** Follows the first revision of a new deployment to its address, or to the cause of its failure and what to change. */
export function DeployWatch({ deploymentId, files }: Props) {
  const { client } = useSession();
  const ids = { deployment_id: deploymentId };
  const deployment = useQuery({
    queryKey: ["deployment", deploymentId],
    queryFn: ({ signal }) => client.getDeployment(ids, { signal }),
  });
  const revisions = useQuery({
    queryKey: ["deployment", deploymentId, "revisions", 1],
    queryFn: ({ signal }) => client.listRevisions({ ...ids, limit: 1 }, { signal }),
  });
  if (deployment.isError) return <Failure error={deployment.error} retry={() => void deployment.refetch()} />;
  if (deployment.data === undefined) return <Loading what="the deployment" />;
  const revision = revisions.data?.resources[0];
  return <Watched deployment={deployment.data} revision={revision} files={files} />;
}

function Watched(props: { deployment: Deployment; revision: Revision | undefined; files: SourceFile[] }) {
  const { deployment, revision, files } = props;
  const { client } = useSession();
  const { id, name, display_name: displayName } = deployment;
  usePageTitle(`Deploying ${name}`);
  const events = useQuery({
    queryKey: ["deployment", id, "events"],
    queryFn: ({ signal }) =>
      client.listEvents({ deployment_ids: [id], types: ["revision.status"], order: "desc", limit: 100 }, { signal }),
  });
  const moves = (events.data?.events ?? []).toReversed().filter((event) => event.revision_id === revision?.id);
  const isActive = revision !== undefined && deployment.active_revision_id === revision.id;
  return (
    <>
      <header className="head">
        <div className="row">
          <h1>{displayName ?? name}</h1>
          <Status of={isActive ? deployment.health.status : (revision?.status ?? "CREATING")} isPill />
        </div>
        <div className="head-acts row">
          <Link
            to="/o/$tenantId/host/deployments/$id"
            params={{ tenantId: deployment.tenant_id, id }}
            className="button"
          >
            Open deployment
          </Link>
        </div>
      </header>
      {isActive && <Served deployment={deployment} />}
      {revision !== undefined && (
        <section className={`card revision ${isActive ? "active" : ""}`} aria-label="First revision">
          <div className="row">
            <h2>Revision {numberText(revision)}</h2>
            <RevisionStatusMark revision={revision} isActive={isActive} />
          </div>
          {isFailure(revision.status) && <Failed deployment={deployment} revision={revision} files={files} />}
          <StepBar revision={revision} moves={moves} />
          {revision.status !== "QUEUED" && (
            <BuildLog
              question={{ deployment_id: id, revision_id: revision.id, type: "build" }}
              key={`${revision.id} ${isInProgress(revision.status)}`}
            />
          )}
        </section>
      )}
    </>
  );
}

function Served({ deployment }: { deployment: Deployment }) {
  const { url, name, tenant_id: tenantId, id } = deployment;
  return (
    <Notice kind="good">
      <h2>{name} answers</h2>
      {url !== null && (
        <>
          <p className="row">
            <Address url={url} />
          </p>
          <CommandLine text={`curl -i ${url}/`} />
        </>
      )}
      <Link
        to="/o/$tenantId/host/deployments/$id/$part"
        params={{ tenantId, id, part: "playground" }}
        className="button primary"
      >
        <MessagesSquare size={15} /> Open the playground
      </Link>
    </Notice>
  );
}

/** The cause of a failure, with the fields that most failures of a first build need. */
function Failed({ deployment, revision, files }: { deployment: Deployment; revision: Revision; files: SourceFile[] }) {
  const { client, mayChange } = useSession();
  const { id, source, source_revision_config: settings } = deployment;
  const isGit = source === "github";
  const isCode = isGit || source === "internal_source";
  const [configPath, setConfigPath] = useState(settings.langgraph_config_path ?? "langgraph.json");
  const [ref, setRef] = useState(settings.repo_ref ?? "");
  const ids = { deployment_id: id };
  const retry = useMutation({
    mutationFn: async () => {
      if (isGit) {
        const config = { repo_ref: ref.trim(), langgraph_config_path: configPath.trim() };
        await client.createRevision({ ...ids, body: { source_revision_config: config } });
      } else if (source === "internal_source" && files.length > 0) {
        await uploadSource(client, id, files, configPath.trim());
      } else await client.redeployRevision({ ...ids, revision_id: revision.id });
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ["deployment", id] }),
  });
  const problem = isCode ? configPathProblem(configPath.trim()) : null;
  const { variable } = causeOf({ message: revision.status_message, failure: revision.failure });
  const mayEdit = isGit || files.length > 0;
  return (
    <>
      <RevisionCause revision={revision} />
      {mayChange && (
        <form
          className="retry"
          onSubmit={(event) => {
            event.preventDefault();
            retry.mutate();
          }}
        >
          {isCode && mayEdit && (
            <TextField label="Config file" value={configPath} onValue={setConfigPath} problem={problem} />
          )}
          {isGit && <TextField label="Branch, refs/tags/… or commit" value={ref} onValue={setRef} />}
          {retry.isError && (
            <p role="alert" className="bad-text">
              {textOf(retry.error)}
            </p>
          )}
          <div className="row">
            <button type="submit" className="primary" disabled={retry.isPending || problem !== null}>
              {retry.isPending ? "Deploying …" : "Try again"}
            </button>
            <Link
              to="/o/$tenantId/host/deployments/$id/$part"
              params={{ tenantId: deployment.tenant_id, id, part: "environment" }}
              search={variable === null ? {} : { variable }}
              className="button"
            >
              {variable === null ? "Change variables" : `Set ${variable}`}
            </Link>
          </div>
        </form>
      )}
    </>
  );
}
