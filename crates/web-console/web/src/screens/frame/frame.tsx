// Menu, bar and palette around every screen, and the messages about an ended session or a newer server.

import { useIsFetching } from '@tanstack/react-query'
import { useRouterState } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from 'react'
import { onSession, session, sessionIsOver, signOut } from '../../api/session.ts'
import { onTheme, theme } from '../../api/theme.ts'
import { sayError } from '../../generic/failure.tsx'
import { Link, useAddress, useGo } from '../../generic/go.tsx'
import { Button, Menu } from '../../kit/buttons.tsx'
import { Icon } from '../../kit/icons.tsx'
import { keysText, useShortcuts } from '../../kit/keys.ts'
import { fetched, part } from '../../kit/part.tsx'
import { Toasts } from '../../kit/toasts.tsx'
import { nameOf } from '../../kit/values.tsx'
import { useMenu } from '../../shared/menu.ts'
import { t } from '../../texts.ts'
import look from './frame.module.css'

const sessionOver = () => import('./session-over.tsx')
const SessionOver = part(() => sessionOver().then((module) => module.default))
const Password = part(() => import('../../shared/password.tsx').then((module) => module.Password))
const SecondFactorDue = part(() => import('../../shared/second-factors/due.tsx').then((module) => module.default))
const Palette = part(() => import('./palette.tsx').then((module) => module.default))
const Shortcuts = part(() => import('./shortcuts.tsx').then((module) => module.default))

export function Frame({ children }: { children: ReactNode }) {
  const [isOpen, setIsOpen] = useState(false)
  const [openDialog, setOpenDialog] = useState<'palette' | 'shortcuts' | undefined>()
  const { path, search } = useAddress()
  const go = useGo()
  const main = useRef<HTMLElement>(null)
  const parts = useMenu()
  const isOver = useSyncExternalStore(onSession, sessionIsOver)
  const { name = session()?.build ?? '', logo } = useSyncExternalStore(onTheme, theme)
  useShortcuts([
    { keys: 'Ctrl+K', text: t('palette'), run: () => setOpenDialog('palette') },
    { keys: '?', text: t('shortcuts'), run: () => setOpenDialog('shortcuts') },
    ...parts
      .flatMap(({ entries }) => entries)
      .flatMap(({ to, text, keys }) => (keys ? [{ keys, text: t('go-to', { name: text }), run: () => go(to) }] : [])),
  ])
  useHeading(main, name)
  // It must be there when nothing can be fetched any more.
  useEffect(() => {
    const timer = setTimeout(() => void fetched(sessionOver)().catch(() => {}), 10_000)
    return () => clearTimeout(timer)
  }, [])
  useEffect(() => {
    if (path) setIsOpen(false)
  }, [path])
  const start = useSyncExternalStore(onSession, session)
  const user = start?.user
  const isFactorDue = useFromNowOn(start?.second_factor_required === true)
  return (
    <div className={look.frame}>
      <a className={look.skip} href="#main">
        {t('skip')}
      </a>
      <header className={look.bar}>
        <span className={look.opener}>
          <Button
            look="quiet"
            icon="menu"
            aria-label={t('menu')}
            aria-expanded={isOpen}
            onPress={() => setIsOpen(!isOpen)}
          />
        </span>
        <Link to="/" className={look.brand}>
          {logo && <img key={logo} src={logo} alt="" onError={({ currentTarget }) => currentTarget.remove()} />}
          <span>{name}</span>
        </Link>
        <div className={look.spacer} />
        <button type="button" className={look.palette} onClick={() => setOpenDialog('palette')}>
          <Icon name="search" />
          <span>{t('palette')}</span>
          <kbd>{keysText('Ctrl+K')}</kbd>
        </button>
        <Menu
          label={user ? t('account-of', { name: nameOf(user) }) : t('account')}
          icon="user"
          actions={[
            { id: 'me', text: t('me'), run: () => go('/me') },
            { id: 'shortcuts', text: t('shortcuts'), keys: '?', run: () => setOpenDialog('shortcuts') },
            { id: 'sign-out', text: t('sign-out'), run: () => void signOut().catch(sayError) },
          ]}
        />
      </header>
      <nav className={look.menu} data-open={isOpen} aria-label={t('menu')}>
        {parts.map(({ title, heading, entries }, n) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a menu for everybody may have the same title twice
          <div key={`${title ?? heading ?? ''} ${n}`} className={look.part}>
            {(title || heading) && <h2 className={look.title}>{heading ?? (title && t(title))}</h2>}
            <ul>
              {entries.map(({ to, text, icon }, at) => {
                const isWhole = to === '/' || to === '/records'
                const isCurrent = path === to || path + search === to || (!isWhole && path.startsWith(`${to}/`))
                return (
                  // biome-ignore lint/suspicious/noArrayIndexKey: or the same place
                  <li key={`${to} ${at}`}>
                    <Link to={to} isCurrent={isCurrent} className={look.entry}>
                      <Icon name={icon} />
                      <span title={text}>{text}</span>
                    </Link>
                  </li>
                )
              })}
            </ul>
          </div>
        ))}
      </nav>
      <main ref={main} id="main" className={look.main} tabIndex={-1}>
        {start?.password_change_required ? <PasswordDue /> : isFactorDue ? <SecondFactorDue /> : children}
      </main>
      <Fetching />
      <Toasts />
      {isOver && <SessionOver />}
      {openDialog === 'palette' && <Palette parts={parts} onClose={() => setOpenDialog(undefined)} />}
      {openDialog === 'shortcuts' && <Shortcuts onClose={() => setOpenDialog(undefined)} />}
    </div>
  )
}

/**
 * True from the first time on, until the page is loaded again. The page of the second factor therefore stays while it
 * shows recovery codes, although the session is no longer restricted.
 */
function useFromNowOn(isSo: boolean): boolean {
  const [was, setWas] = useState(isSo)
  if (isSo && !was) setWas(true)
  return isSo || was
}

/** A thin bar while missing data is fetched. It appears after a moment, so that it does not flash. */
function Fetching() {
  const isGoing = useRouterState({ select: ({ isLoading }) => isLoading })
  const count = useIsFetching({ predicate: ({ state }) => state.data === undefined })
  return isGoing || count > 0 ? <div className="fetching" aria-hidden="true" /> : null
}

/** The focus may be moved from the body, the menu and the bar, and from a removed element. */
const isFree = (active: Element | null) =>
  active === document.body || !active?.isConnected || active.closest('nav, header') !== null

/**
 * Moves the focus to the heading of a new page, and sets the title of the window. The former page remains until the new
 * one is fetched, so its heading does not count.
 */
function useHeading(main: { current: HTMLElement | null }, name: string) {
  const page = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname })
  const before = useRef(page)
  useEffect(() => {
    let isNew = before.current !== undefined && before.current !== page
    before.current = page
    let frame = 0
    const focus = () => {
      const active = document.activeElement
      // The palette gives the focus back when it is gone.
      if (active?.closest('[role=dialog]')) frame = requestAnimationFrame(focus)
      else if (isFree(active)) main.current?.querySelector('h1')?.focus({ preventScroll: true })
    }
    const look = () => {
      const heading = main.current?.querySelector('h1')
      if (!heading) return
      document.title = `${heading.textContent} · ${name}`
      if (isNew) focus()
      isNew = false
    }
    look()
    const observer = new MutationObserver(look)
    if (main.current) observer.observe(main.current, { childList: true, subtree: true, characterData: true })
    return () => {
      observer.disconnect()
      cancelAnimationFrame(frame)
    }
  }, [main, page, name])
}

/** Everything else waits for the change of the password. All queries then run again. */
function PasswordDue() {
  return (
    <>
      <h1 tabIndex={-1}>{t('password.due')}</h1>
      <p>{t('password.due.text')}</p>
      <Password onChanged={() => location.reload()} />
    </>
  )
}
