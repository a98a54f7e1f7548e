// The interface for everybody: menu, home page, views of lists, pages of records, and theme.

import { Refusal } from '../../api/refusal.ts'
import { FailurePage, Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { mayConfigure } from '../../generic/ui-config.ts'
import { NotFound } from '../../shared/not-found.tsx'
import { type OpenClass, useClass } from '../../shared/records/class.ts'
import { t } from '../../texts.ts'
import { HomeEditor } from './home.tsx'
import look from './interface.module.css'
import { ListEditor } from './lists.tsx'
import { MenuEditor } from './menu.tsx'
import { RecordEditor } from './records.tsx'
import { ClassChooser } from './selection.tsx'
import { ThemeEditor } from './theme.tsx'

const ROUTE = '/admin/interface'

const Lists = () => <OfClass editor={ListEditor} />
const Records = () => <OfClass editor={RecordEditor} />

const PARTS = { menu: MenuEditor, home: HomeEditor, lists: Lists, records: Records, theme: ThemeEditor }
type Part = keyof typeof PARTS
const NAMES = Object.keys(PARTS) as Part[]

const routeOf = (part: Part) => (part === 'menu' ? ROUTE : `${ROUTE}/${part}`)

export function Interface() {
  const { path } = useHere()
  const part = NAMES.find((name) => routeOf(name) === path)
  if (!part) return <NotFound />
  if (!mayConfigure())
    return <FailurePage error={new Refusal(403, {}, null, null, { method: 'POST', path: '/ui-config/' })} />
  const Editor = PARTS[part]
  return (
    <>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{`${t('interface')}: ${t(`interface.${part}`)}`}</h1>
      </header>
      <nav aria-label={t('interface.parts')}>
        <ul className={look.tabs}>
          {NAMES.map((name) => (
            <li key={name}>
              <Link to={routeOf(name)} isCurrent={name === part}>
                {t(`interface.${name}`)}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <p className={look.hint}>{t(`interface.${part}.hint`)}</p>
      <Editor key={part} />
    </>
  )
}

/** The address contains the class. */
function OfClass({ editor: One }: { editor: (props: { openClass: OpenClass }) => React.ReactNode }) {
  const { path, search } = useHere()
  const go = useGo()
  const id = Number(new URLSearchParams(search).get('class')) || undefined
  const { openClass, reading } = useClass(id)
  return (
    <>
      <div className={look.class}>
        <ClassChooser
          name="class"
          label={t('interface.class')}
          value={openClass?.id ?? null}
          text={openClass?.name ?? ''}
          onChoose={(one) => go(`${path}?class=${one.id}`)}
        />
      </div>
      <Reading of={reading} />
      {id === undefined && <p className={generic.none}>{t('interface.class.choose')}</p>}
      {openClass && <One key={openClass.id} openClass={openClass} />}
    </>
  )
}
