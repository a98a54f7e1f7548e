// Going from one address of the console to another.

import { useMatch, useRouter, useRouterState } from '@tanstack/react-router'
import type { MouseEvent, ReactNode, Ref } from 'react'
import { stringifySearch } from './address.ts'

export const BASE = '/console'

/** True for an address of another site, which opens in a new tab. */
const isElsewhere = (to: string) => to.startsWith('https://')

export function useGo(): (to: string, replace?: boolean) => void {
  const { history } = useRouter()
  return (to, replace = false) => {
    if (isElsewhere(to)) window.open(to, '_blank', 'noopener,noreferrer')
    else if (replace) history.replace(BASE + to)
    else history.push(BASE + to)
  }
}

const below = (path: string) => (path.startsWith(BASE) ? path.slice(BASE.length) || '/' : path)

/** The address of the page that asks, below `/console`: it stays while the next page, which has another one, is being fetched. */
export function useHere(): { path: string; search: string } {
  const path = useMatch({ strict: false, select: ({ pathname }) => pathname })
  const search = useMatch({ strict: false, select: (match) => stringifySearch(match.search) })
  return { path: below(path), search }
}

/** The address to which the browser went last, be its page there yet or not. */
export function useAddress(): { path: string; search: string } {
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const search = useRouterState({ select: ({ location }) => location.searchStr })
  return { path: below(path), search }
}

export interface LinkProps {
  to: string
  className?: string | undefined
  children: ReactNode
  label?: string
  isCurrent?: boolean
  linkRef?: Ref<HTMLAnchorElement>
}

/** A link that can be opened in a new tab. */
export function Link({ to, className, children, label, isCurrent, linkRef }: LinkProps) {
  const go = useGo()
  const follow = (event: MouseEvent) => {
    if (isElsewhere(to) || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0)
      return
    event.preventDefault()
    go(to)
  }
  return (
    <a
      ref={linkRef}
      href={isElsewhere(to) ? to : BASE + to}
      {...(isElsewhere(to) && { target: '_blank', rel: 'noopener noreferrer' })}
      className={className}
      onClick={follow}
      aria-label={label}
      aria-current={isCurrent ? 'page' : undefined}
    >
      {children}
    </a>
  )
}
