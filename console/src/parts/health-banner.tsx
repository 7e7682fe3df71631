import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, TriangleAlert } from "lucide-react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { mayPass } from "../../../src/domain/failures.ts";
import { useSession } from "../session.tsx";
import { causeOf, Said } from "./cause.tsx";
import { useShowRevisions } from "./deploy-button.tsx";
import { statusText } from "./status.tsx";
import { Ago } from "./time.tsx";
import { useToasts } from "./toasts.tsx";
import { attentionWords } from "./words.ts";

const quietReasons = ["NothingDeployed"];

const isShown = ({ status, reason }: Deployment["health"]) =>
  attentionWords.includes(status) && !quietReasons.includes(reason ?? "");

/** Whether the newest revision failed for a reason that may have passed. */
const isRetriable = ({ health, latest_revision_id: latest, active_revision_id: active }: Deployment) =>
  latest !== null && latest !== active && mayPass(health.failure?.code ?? "exited");

/** Returns whether the banner has the next step as a filled button. Otherwise the next step is a deploy, which the page offers. */
export function leadsOn(deployment: Deployment): boolean {
  const { health } = deployment;
  const isDeploy = health.next_action?.kind === "deploy" && health.reason !== "NewRevisionFailed";
  return isShown(health) && (!isDeploy || health.can_roll_back || isRetriable(deployment));
}

/**
 * Says what is wrong with a deployment, since when and why, and leads to the next step. Empty while all is well.
 * `isShort`: the page shows the lines of the log itself.
 */
export function HealthBanner({ deployment, isShort }: { deployment: Deployment; isShort: boolean }) {
  const { status, since, next_action: next } = deployment.health;
  if (!isShown(deployment.health)) return null;
  const isBad = status === "crash_looping" || status === "failed";
  const { title, rest, lines, variable } = causeOf(deployment.health);
  const Icon = isBad ? CircleAlert : TriangleAlert;
  return (
    <section className={`banner ${isBad ? "bad" : "warn"}`} aria-label="Health">
      <Icon size={17} />
      <div>
        <h2>
          {statusText(status)}
          {title !== "" && (
            <>
              : <Said text={title} />
            </>
          )}
        </h2>
        <p>
          {rest !== "" && (
            <>
              <Said text={/[.!?…]$/.test(rest) ? rest : `${rest}.`} />{" "}
            </>
          )}
          Began <Ago at={since} />. {next?.text}
        </p>
      </div>
      <div className="row">
        <HealthActs deployment={deployment} variable={variable} isShort={isShort} />
      </div>
      {lines !== "" && !isShort && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable with the keyboard.
        <pre tabIndex={0}>{lines}</pre>
      )}
    </section>
  );
}

interface ActsProps {
  deployment: Deployment;
  variable: string | null;
  isShort: boolean;
}

/** The ways on, at most three. The fix is the last one, and filled. */
export function HealthActs({ deployment, variable, isShort }: ActsProps) {
  const { mayChange } = useSession();
  const { health, tenant_id: tenantId, id, latest_revision_id: latest } = deployment;
  const kind = health.next_action?.kind;
  const isBuild = kind === "read_build_log" || health.reason === "NewRevisionFailed";
  const link =
    (text: string, part: string, search = {}) =>
    (isMain: boolean) => (
      <Link
        key={text}
        to="/o/$tenantId/host/deployments/$id/$part"
        params={{ tenantId, id, part }}
        search={search}
        className={isMain ? "button small primary" : "button small"}
      >
        {text}
      </Link>
    );
  const log = kind === "read_log" ? [link("View logs", "logs")] : [];
  const canRollBack = !isBuild && health.can_roll_back;
  const text = isBuild ? "Build log" : canRollBack ? "Roll back …" : "Revisions";
  const revisions = isShort ? [] : [link(text, "revisions", latest === null || !isBuild ? {} : { revision: latest })];
  const acts = [
    ...(kind === "check_listener" ? [listenersLink] : canRollBack ? [...log, ...revisions] : [...revisions, ...log]),
    ...(variable !== null && mayChange ? [link(`Set ${variable}`, "environment", { variable })] : []),
    ...(mayChange && isRetriable(deployment)
      ? [(isMain: boolean) => <RetryButton key="retry" deployment={deployment} isMain={isMain} />]
      : []),
  ];
  return acts.map((act, at) => act(at === acts.length - 1 && leadsOn(deployment)));
}

const listenersLink = (isMain: boolean) => (
  <Link
    key="listeners"
    to="/host/$page"
    params={{ page: "listeners" }}
    className={isMain ? "button small primary" : "button small"}
  >
    Listeners
  </Link>
);

/** Tries the newest revision again, which failed for a reason that may have passed. */
function RetryButton({ deployment, isMain }: { deployment: Deployment; isMain: boolean }) {
  const { client } = useSession();
  const { notifyError } = useToasts();
  const retry = useMutation({
    mutationFn: () => client.retryDeployment({ deployment_id: deployment.id }),
    onError: notifyError,
    onSuccess: useShowRevisions(deployment),
  });
  return (
    <button
      type="button"
      className={isMain ? "small primary" : "small"}
      onClick={() => retry.mutate()}
      disabled={retry.isPending}
    >
      Retry
    </button>
  );
}
