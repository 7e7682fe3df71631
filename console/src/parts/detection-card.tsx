import { useQuery } from "@tanstack/react-query";
import { Check, TriangleAlert } from "lucide-react";
import { useEffect, useState } from "react";
import type { Client } from "../../../src/client/client.ts";
import type { Detection } from "../../../src/contract/detections/detection.ts";
import { archiveOf } from "../archive.ts";
import { type Draft, problemsOf } from "../draft.ts";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { Light } from "./status.tsx";

/** The user types an address letter by letter; the server reads the repository when they pause. */
const pauseMs = 700;

/** What a detection reads: files above this size count as present, and their content is not sent. */
const fileBytesMax = 256 * 1_024;
const filesMax = 5_000;

/** Asks the server what it would build from the source of a draft. */
export function useDetection(draft: Draft) {
  const { client } = useSession();
  const question = useSettled(questionOf(draft), pauseMs);
  return useQuery({
    queryKey: ["detection", question],
    queryFn: ({ signal }) => detect(client, draft, signal),
    enabled: question !== null,
    staleTime: 60_000,
    retry: false,
    refetchOnWindowFocus: false,
  });
}

/** Returns what identifies the answer; null while the source is incomplete. */
function questionOf(draft: Draft): string | null {
  const { source, repoUrl, ref, integrationId, configPath, templateId, files } = draft;
  const problems = problemsOf(draft);
  if (source === "internal_template") return templateId === "" ? null : JSON.stringify([source, templateId]);
  if (source === "external_docker" || problems.configPath !== undefined) return null;
  if (source === "github")
    return problems.repoUrl === undefined && problems.ref === undefined
      ? JSON.stringify([source, repoUrl, ref, integrationId, configPath])
      : null;
  if (files.length === 0) return null;
  return JSON.stringify([source, configPath, files.map(({ path, file }) => [path, file.size, file.lastModified])]);
}

function useSettled(value: string | null, ms: number): string | null {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled === value ? settled : null;
}

async function detect(client: Client, draft: Draft, signal: AbortSignal): Promise<Detection> {
  const { source, repoUrl, ref, integrationId, configPath, templateId } = draft;
  if (source === "internal_template") return client.detectSource({ body: { template_id: templateId } }, { signal });
  if (source === "github") {
    const readBy = integrationId === "" ? {} : { integration_id: integrationId };
    return client.detectSource({ body: { repo_url: repoUrl, ref, config_path: configPath, ...readBy } }, { signal });
  }
  const depth = (path: string) => path.split("/").length;
  const nearest = draft.files.toSorted((a, b) => depth(a.path) - depth(b.path)).slice(0, filesMax);
  const small = nearest.map(({ path, file }) => ({
    path,
    file: file.size > fileBytesMax ? new File([], file.name) : file,
  }));
  return client.detectArchive(await archiveOf(small), { config_path: configPath }, { signal });
}

interface Props {
  found: ReturnType<typeof useDetection>;
  /** Absent: the config file cannot be changed here. */
  onConfigPath?: (path: string) => void;
}

/** Shows what was found in the source. If a build would fail, it says why and offers the configurations that exist. */
export function DetectionCard({ found, onConfigPath }: Props) {
  const { data, error, isFetching } = found;
  if (isFetching)
    return (
      <p className="detection busy" role="status">
        <Light of="deploying" /> Looking into the source …
      </p>
    );
  if (error !== null)
    return (
      <div className="detection warn" role="status">
        <TriangleAlert size={16} aria-hidden="true" />
        <div>
          <strong>The source could not be read</strong>
          <p>{textOf(error)}</p>
        </div>
      </div>
    );
  if (data === undefined) return null;
  if (data.problem !== null) return <Refused detection={data} {...(onConfigPath !== undefined && { onConfigPath })} />;
  return <Found detection={data} />;
}

function Found({ detection }: { detection: Detection }) {
  const { graphs, commit_sha: commit, ref, variables, build_commands: builds, notes } = detection;
  return (
    <div className="detection good" role="status">
      <Check size={16} aria-hidden="true" />
      <div>
        <strong>Found {detection.found}</strong>
        <p>
          {graphs.map(({ id, path }) => (
            <code key={id} title={path}>
              {id}
            </code>
          ))}
          {commit !== null && (
            <>
              {" "}
              from <code>{ref}</code> at <code>{commit.slice(0, 7)}</code>.
            </>
          )}
          {builds.length > 0 && <> Builds with {builds.join(", then ")}.</>}
          {variables.length > 0 && <> It asks for {variables.map(({ name }) => name).join(", ")}.</>}
        </p>
        {notes.map((note) => (
          <p key={note}>{note}</p>
        ))}
      </div>
    </div>
  );
}

function Refused({ detection, onConfigPath }: { detection: Detection; onConfigPath?: (path: string) => void }) {
  return (
    <div className="detection warn" role="status">
      <TriangleAlert size={16} aria-hidden="true" />
      <div>
        <strong>A build would fail</strong>
        <p>{detection.problem?.message}</p>
        {onConfigPath !== undefined && detection.configs.length > 0 && (
          <div className="row">
            {detection.configs.map((path) => (
              <button key={path} type="button" className="small" onClick={() => onConfigPath(path)}>
                Use {path}
              </button>
            ))}
          </div>
        )}
      </div>
    </div>
  );
}
