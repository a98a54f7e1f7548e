// Shows administrators that a part of a UI configuration was ignored.

import css from '../kit/controls.module.css'
import { t } from '../texts.ts'
import { Link } from './go.tsx'
import { mayConfigure } from './ui-config.ts'

export function NotUnderstood({ component, flaws, to }: { component: string; flaws: string[]; to: string }) {
  if (flaws.length === 0 || !mayConfigure()) return null
  return (
    <p className={css.notice} data-tone="warn">
      {t('interface.not-understood', { component, places: shortened(flaws) })}{' '}
      <Link to={to}>{t('interface.look')}</Link>
    </p>
  )
}

const SHOWN = 5

/** A broken configuration may have thousands of places. */
export const shortened = (flaws: string[]): string =>
  flaws.length > SHOWN
    ? `${flaws.slice(0, SHOWN).join(', ')} ${t('and-more', { count: flaws.length - SHOWN })}`
    : flaws.join(', ')
