import { Menu } from "@base-ui/react/menu";
import type { ReactElement, ReactNode } from "react";

export interface MenuAction {
  text: string;
  /** A second line that says what the action does. */
  note?: string;
  icon?: ReactNode;
  title?: string;
  isDanger?: boolean;
  /** An address of the server outside of the console. */
  href?: string;
  act?: () => void;
}

/** A menu of actions. Escape, an outside click and a choice close it. Arrows and letters move in it. */
export function ActionMenu(props: {
  trigger: ReactElement<Record<string, unknown>>;
  /** Text above the actions. */
  heading?: ReactNode;
  actions: readonly MenuAction[];
  align?: "start" | "end";
  isOpenAtFirst?: boolean;
}) {
  const { trigger, heading, actions, align = "end", isOpenAtFirst = false } = props;
  return (
    <Menu.Root defaultOpen={isOpenAtFirst}>
      <Menu.Trigger render={trigger} />
      <Menu.Portal>
        <Menu.Positioner sideOffset={5} align={align} className="positioner">
          <Menu.Popup className="popup">
            {heading !== undefined && <div className="menu-note softer">{heading}</div>}
            {actions.map((action) => (
              <Menu.Item
                key={action.text}
                className={action.isDanger ? "menu-item danger" : "menu-item"}
                title={action.title}
                onClick={action.act}
                // biome-ignore lint/a11y/useAnchorContent: the menu fills the anchor.
                {...(action.href !== undefined && { render: <a href={action.href} /> })}
              >
                {action.icon}
                <span className="menu-text">
                  {action.text}
                  {action.note !== undefined && <small>{action.note}</small>}
                </span>
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
