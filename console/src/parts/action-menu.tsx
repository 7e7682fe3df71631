import { Menu } from "@base-ui/react/menu";
import type { ReactElement, ReactNode } from "react";

export interface MenuAction {
  /** For menus in which two actions have the same text. */
  key?: string;
  text: string;
  /** A second line that says what the action does. */
  note?: ReactNode;
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
  /** Given together: the caller opens the menu too. */
  isOpen?: boolean;
  onOpenChange?: (isOpen: boolean) => void;
}) {
  const { trigger, heading, actions, align = "end", isOpenAtFirst = false, isOpen, onOpenChange } = props;
  const controlled = isOpen !== undefined && onOpenChange !== undefined;
  return (
    <Menu.Root defaultOpen={isOpenAtFirst} {...(controlled && { open: isOpen, onOpenChange })}>
      <Menu.Trigger render={trigger} />
      <Menu.Portal>
        <Menu.Positioner sideOffset={5} align={align} className="positioner">
          <Menu.Popup className="popup">
            {heading !== undefined && <div className="menu-note softer">{heading}</div>}
            {actions.map((action) => (
              <Menu.Item
                key={action.key ?? action.text}
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
