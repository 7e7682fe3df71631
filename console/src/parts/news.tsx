import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Bell } from "lucide-react";
import { useEffect, useState } from "react";
import type { Event } from "../../../src/contract/logs/event.ts";
import { isBadNews, isNews, isOfInterest, newsText, newsTypes, onNews } from "../news.ts";
import { useSession } from "../session.tsx";
import { ActionMenu, type MenuAction } from "./action-menu.tsx";
import { Light } from "./status.tsx";
import { Ago } from "./time.tsx";
import { useToasts } from "./toasts.tsx";

const readMax = 100;
const shownMax = 8;

/** How deploys ended and which alerts fired. A dot marks what came since the list was last open. */
export function News() {
  const { client, workspaceId } = useSession();
  const [isOpen, setOpen] = useState(false);
  const [newCount, setNewCount] = useState(0);
  const openDeployment = useOpen();
  const { notify } = useToasts();
  useEffect(
    () =>
      onNews((event) => {
        setNewCount((count) => count + 1);
        if (!isOfInterest(event)) return;
        notify(`${newsText(event)}.`, { text: "Open", act: () => openDeployment(event) });
      }),
    [notify, openDeployment],
  );
  const found = useQuery({
    queryKey: ["news", workspaceId],
    queryFn: ({ signal }) => client.listEvents({ types: [...newsTypes], order: "desc", limit: readMax }, { signal }),
    enabled: isOpen,
    staleTime: 0,
  });
  const events = (found.data?.events ?? []).filter(isNews).slice(0, shownMax);
  const actions = events.map(
    (event): MenuAction => ({
      key: event.id,
      text: newsText(event),
      note: <Ago at={event.created_at} />,
      icon: <Light of={isBadNews(event) ? "failed" : "live"} />,
      act: () => openDeployment(event),
    }),
  );
  return (
    <ActionMenu
      isOpen={isOpen}
      onOpenChange={(open) => {
        setOpen(open);
        if (open) setNewCount(0);
      }}
      heading={
        found.isPending ? "Reading …" : actions.length === 0 ? "No deploy has ended and no alert fired yet." : "News"
      }
      actions={actions}
      trigger={
        <button
          type="button"
          className="quiet icon-only small news"
          aria-label={newCount === 0 ? "News" : `News, ${newCount} new`}
        >
          <Bell size={15} />
          {newCount > 0 && <i aria-hidden="true" />}
        </button>
      }
    />
  );
}

function useOpen() {
  const navigate = useNavigate();
  const [open] = useState(() => ({ deployment_id: id, tenant_id: tenantId, revision_id: revision }: Event) => {
    if (id === null) return void navigate({ to: "/host/$page", params: { page: "alerts" } });
    void navigate({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { tenantId, id, part: revision === null ? "overview" : "revisions" },
      search: revision === null ? {} : { revision },
    });
  });
  return open;
}
