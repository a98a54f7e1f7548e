// Buttons, with their menus and dialogs. The kit of these is fetched when the first of them opens.

import { type ComponentProps, type ReactNode, type RefObject, useRef, useState } from 'react'
import css from './controls.module.css'
import { Icon, type IconName } from './icons.tsx'
import { useShortcuts } from './keys.ts'
import { part } from './part.tsx'

const MenuPopover = part(() => import('./popovers.tsx').then(({ MenuPopover: found }) => found))
const DialogPopover = part(() => import('./popovers.tsx').then(({ DialogPopover: found }) => found))

type Look = 'primary' | 'danger' | 'quiet'

export interface ButtonProps extends Omit<ComponentProps<'button'>, 'className' | 'onClick' | 'disabled'> {
  look?: Look | undefined
  icon?: IconName
  isDisabled?: boolean | undefined
  onPress?: () => void
  children?: ReactNode
}

/** A button with a text, or an icon alone with an `aria-label`. */
export function Button({ look, icon, isDisabled, onPress, children, type = 'button', ...props }: ButtonProps) {
  const names = [css.button, look && css[look], !children && css.icon]
  return (
    <button {...props} type={type} disabled={isDisabled} onClick={onPress} className={names.filter(Boolean).join(' ')}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

export interface Action {
  id: string
  text: string
  keys?: string
  isDangerous?: boolean
  isDisabled?: boolean
  run: () => void
}

interface Opened {
  label: string
  icon?: IconName
  text?: string
  /** Opened from elsewhere, such as by a key. */
  isOpen?: boolean
  onOpenChange?: (isOpen: boolean) => void
}

/** A button with its popup. */
function Opener({
  opens,
  children,
  label,
  icon,
  text,
  isOpen,
  onOpenChange,
}: Opened & {
  opens: 'menu' | 'dialog'
  children: (trigger: RefObject<HTMLButtonElement | null>, close: () => void) => ReactNode
}) {
  const [own, setOwn] = useState(false)
  const [isShown, setIsShown] = isOpen === undefined || !onOpenChange ? [own, setOwn] : [isOpen, onOpenChange]
  const trigger = useRef<HTMLButtonElement>(null)
  return (
    <>
      <Button
        ref={trigger}
        look="quiet"
        {...(icon && { icon })}
        {...(!text && { 'aria-label': label })}
        aria-haspopup={opens}
        aria-expanded={isShown}
        onPress={() => setIsShown(!isShown)}
      >
        {text}
      </Button>
      {isShown && children(trigger, () => setIsShown(false))}
    </>
  )
}

/** A menu of actions behind a button. */
export function Menu({
  actions,
  icon = 'ellipsis',
  isOffered = false,
  ...opened
}: Opened & {
  actions: Action[]
  /** The palette also has its actions. */
  isOffered?: boolean
}) {
  useShortcuts(isOffered ? actions.filter(({ keys, isDisabled }) => !keys && !isDisabled) : [])
  return (
    <Opener {...opened} icon={icon} opens="menu">
      {(trigger, close) => <MenuPopover label={opened.label} trigger={trigger} actions={actions} onClose={close} />}
    </Opener>
  )
}

/** A small dialog behind a button. */
export function Popup({ children, ...opened }: Opened & { children: (close: () => void) => ReactNode }) {
  return (
    <Opener {...opened} opens="dialog">
      {(trigger, close) => (
        <DialogPopover label={opened.label} trigger={trigger} onClose={close}>
          {children(close)}
        </DialogPopover>
      )}
    </Opener>
  )
}
