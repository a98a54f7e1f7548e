// Menus and small dialogs that a button opens.

import type { ReactNode, RefObject } from 'react'
import { Dialog, Menu, MenuItem, Popover } from 'react-aria-components'
import type { Action } from './buttons.tsx'
import css from './controls.module.css'
import { keysText, Layer } from './keys.ts'

interface Opened {
  label: string
  trigger: RefObject<HTMLElement | null>
  onClose: () => void
}

export function MenuPopover({ label, trigger, actions, onClose }: Opened & { actions: Action[] }) {
  return (
    <Popover
      className={css.popover ?? ''}
      aria-label={label}
      triggerRef={trigger}
      placement="bottom start"
      isOpen
      onOpenChange={(isOpen) => isOpen || onClose()}
    >
      <Menu className={css.list ?? ''} aria-label={label} autoFocus="first" onClose={onClose}>
        {actions.map(({ id, text, keys, isDangerous, isDisabled, run }) => (
          <MenuItem
            key={id}
            id={id}
            textValue={text}
            className={`${css.item} ${isDangerous ? css.danger : ''}`}
            isDisabled={isDisabled ?? false}
            onAction={run}
          >
            <span>{text}</span>
            {keys && <kbd>{keysText(keys)}</kbd>}
          </MenuItem>
        ))}
      </Menu>
    </Popover>
  )
}

export function DialogPopover({ label, trigger, onClose, children }: Opened & { children: ReactNode }) {
  return (
    <Popover
      className={css.popover ?? ''}
      triggerRef={trigger}
      placement="bottom start"
      isOpen
      onOpenChange={(isOpen) => isOpen || onClose()}
    >
      <Dialog className={css.small ?? ''} aria-label={label}>
        <Layer>{children}</Layer>
      </Dialog>
    </Popover>
  )
}
