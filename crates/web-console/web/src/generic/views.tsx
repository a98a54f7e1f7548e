// The views of a list: shared ones, and those of the user. Each is a name and an address.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { queries } from '../api/query.ts'
import { call, get } from '../api/request.ts'
import type { Page } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { TextField } from '../kit/fields.tsx'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { Reading, sayError } from './failure.tsx'
import look from './generic.module.css'
import { Link, useHere } from './go.tsx'
import { NotUnderstood } from './not-understood.tsx'
import { useSettings } from './settings.ts'
import { storeConfiguration as keepShared, mayConfigure, readToWrite, useConfiguration } from './ui-config.ts'
import { readViews, type View as SharedView, searchOf, selectionOf, written } from './ui-contents.ts'

interface View {
  name: string
  search: string
}

const ALL = '/api/users/me/preferences/'
/** More would not fit into a value of a preference for certain. */
const MOST = 50
/** The maximum number of views on the home page. */
const PINS = 20

/** Changes are sent one after the other. */
let writing = Promise.resolve()

/**
 * Shares a view with everybody, in place of one of the same name. It is refused if an entry is not understood, because
 * that entry would be lost.
 */
async function publish(component: string, { name, search }: View) {
  const before = await readToWrite(component)
  const { content, flaws } = readViews(before.content)
  if (flaws.length > 0) throw new Error(t('views.publish-unclear'))
  const others = content.views.filter((view) => view.name !== name)
  await keepShared(component, written({ views: [...others, { name, ...selectionOf(search) }] }), before)
}

/** The views that everybody is offered. */
function Shared({ component, views, flaws }: { component: string; views: SharedView[]; flaws: string[] }) {
  const { path, search } = useHere()
  return (
    <>
      <NotUnderstood
        component={component}
        flaws={flaws}
        to={`/admin/interface/lists?class=${component.slice('list-'.length)}`}
      />
      {views.length > 0 && (
        <section className={look.adding}>
          <h2>{t('views.shared')}</h2>
          <ul className={look.plain}>
            {views.map((view) => (
              <li key={view.name} className={look.member}>
                <Link to={path + searchOf(view)} isCurrent={searchOf(view) === search}>
                  {view.name}
                </Link>
              </li>
            ))}
          </ul>
          <h2>{t('views.own')}</h2>
        </section>
      )}
    </>
  )
}

/** The user's own views of a list, and the function that changes them. */
function useOwnViews(list: string) {
  const key = `console.views.${list
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, '-')
    .slice(0, 80)}`
  const query = {
    queryKey: [ALL, key],
    queryFn: async () => ((await get<Page>(`${ALL}?key=${key}`)).results[0]?.value ?? []) as unknown as View[],
  }
  const own = useQuery(query)
  /** The whole list is written, so the stored one is read before. Another tab may have changed it. */
  const storeOwn = (change: (views: View[]) => View[]) => {
    writing = writing
      .then(async () => {
        const value = change(await queries.fetchQuery({ ...query, staleTime: 0 }))
        await call('PUT', `${ALL}${key}/`, { body: { value } })
        queries.setQueryData([ALL, key], value)
      })
      .catch(sayError)
  }
  return { own, storeOwn }
}

interface ViewLineProps {
  view: View
  /** The UI configuration with the views for everybody. */
  shared: string | undefined
  onRemove: () => void
}

/** One of the user's own views, with its actions. */
function ViewLine({ view, shared, onRemove }: ViewLineProps) {
  const { path, search } = useHere()
  const [{ pinnedViews }, change] = useSettings()
  const { name } = view
  const to = path + view.search
  const isPinned = pinnedViews.some((pinned) => pinned.to === to)
  const pin = () =>
    change((now) => {
      const others = now.pinnedViews.filter((pinned) => pinned.to !== to)
      return { pinnedViews: isPinned ? others : [...others, { name, to }] }
    })
  const offer = () => publish(`${shared}`, view).then(() => say(t('views.published', { name })), sayError)
  return (
    <li className={look.adding}>
      <Link to={to} isCurrent={view.search === search}>
        {name}
      </Link>
      <span className={look.filters}>
        <Button
          look="quiet"
          aria-label={t(isPinned ? 'views.unpin-one' : 'views.pin-one', { name })}
          isDisabled={!isPinned && pinnedViews.length >= PINS}
          onPress={pin}
        >
          {t(isPinned ? 'views.unpin' : 'views.pin')}
        </Button>
        {shared && mayConfigure() && (
          <Button look="quiet" aria-label={t('views.publish-one', { name })} onPress={() => void offer()}>
            {t('views.publish')}
          </Button>
        )}
        <button type="button" className={css.remove} aria-label={t('remove-one', { name })} onClick={onRemove}>
          {'×'}
        </button>
      </span>
    </li>
  )
}

interface ViewsProps {
  name: string
  /** The UI configuration with the views for everybody. */
  shared: string | undefined
  onDone: () => void
}

export default function Views({ name, shared, onDone }: ViewsProps) {
  const { search } = useHere()
  const [viewName, setViewName] = useState('')
  const forAll = useConfiguration(shared ?? '', readViews, shared !== undefined)
  const { own, storeOwn } = useOwnViews(name)
  const views = own.data
  return (
    <div className={look.editing}>
      {shared && <Shared component={shared} views={forAll.content.views} flaws={forAll.flaws} />}
      <Reading of={[own]} />
      {views?.length === 0 && <p className={look.none}>{t('views.none')}</p>}
      <ul className={look.plain}>
        {views?.map((view) => (
          <ViewLine
            key={view.name}
            view={view}
            shared={shared}
            onRemove={() => storeOwn((all) => all.filter((other) => other.name !== view.name))}
          />
        ))}
      </ul>
      <form
        className={look.editing}
        onSubmit={(event) => {
          event.preventDefault()
          const added = { name: viewName.trim(), search }
          if (!added.name) return
          storeOwn((all) => [...all.filter((view) => view.name !== added.name), added].slice(-MOST))
          onDone()
        }}
      >
        <TextField
          name="view"
          label={t('views.save')}
          isRequired
          value={viewName}
          onChange={setViewName}
          maxLength={100}
        />
        <Button type="submit">{t('save')}</Button>
      </form>
    </div>
  )
}
