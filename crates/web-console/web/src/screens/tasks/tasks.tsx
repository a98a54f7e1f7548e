// Tasks: the caller's or all visible ones, of one template, as a list or a board. The address contains this state.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate, options, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Fields, Instance } from '../../api/shapes.ts'
import { query, read } from '../../generic/address.ts'
import { FormDialog } from '../../generic/form-dialog.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { List } from '../../generic/list.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Chooser } from '../../kit/fields.tsx'
import { say } from '../../kit/toasts.tsx'
import { tasks } from '../../resources/tasks.ts'
import { t } from '../../texts.ts'
import { Board } from './board.tsx'
import look from './tasks.module.css'

const TEMPLATES = '/api/task-templates/'
const FILTER = 'task_template'

/** `/tasks`, `/tasks/all`, and both with `/board` behind. */
const routeOf = (isAll: boolean, isBoard: boolean) => `/tasks${isAll ? '/all' : ''}${isBoard ? '/board' : ''}`

export function Tasks() {
  const { path, search } = useHere()
  const isAll = path.startsWith('/tasks/all')
  const isBoard = path.replace(/\/$/, '').endsWith('/board')
  const described = useQuery({ ...options(tasks.path), enabled: isBoard })
  const columns = described.data?.list?.columns
  const views = (
    <div className={look.views}>
      <nav className={look.tabs} aria-label={t('tasks.whose')}>
        <Link to={routeOf(false, isBoard) + search} isCurrent={!isAll} className={look.tab}>
          {t('tasks.mine')}
        </Link>
        <Link to={routeOf(true, isBoard) + search} isCurrent={isAll} className={look.tab}>
          {t('tasks.all')}
        </Link>
      </nav>
      <nav className={look.tabs} aria-label={t('tasks.view')}>
        <Link to={routeOf(isAll, false) + search} isCurrent={!isBoard} className={look.tab}>
          {t('tasks.list')}
        </Link>
        <Link to={routeOf(isAll, true) + search} isCurrent={isBoard} className={look.tab}>
          {t('board')}
        </Link>
      </nav>
    </div>
  )
  const fixed: { [name: string]: string } = isAll ? {} : { assignees: 'me' }
  const title = t(isAll ? 'tasks.all.title' : 'tasks.mine.title')
  const mayChoose = session()?.permissions?.task_templates?.list === true
  const tools = (
    <>
      {views}
      {mayChoose && <ByTemplate />}
      {session()?.permissions?.task_templates?.view === true && <NewTask />}
    </>
  )
  if (!isBoard)
    return <List key={path} resource={tasks} fixed={fixed} title={title} actions={tools} canCreate={false} />
  const state = read(search, columns ?? [])
  const parameters = new URLSearchParams(query(state))
  for (const name of ['ordering', 'limit', 'offset', 'status']) parameters.delete(name)
  for (const [name, value] of Object.entries(fixed)) parameters.set(name, value)
  return (
    <>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{title}</h1>
        <div className={generic.spacer} />
        {tools}
      </header>
      {columns && state.unknown.length > 0 && (
        <p className={css.notice} data-tone="warn">
          {state.unknown.map(([name, value]) => `${name}=${value} ${t('unknown-filter')}`).join(', ')}
        </p>
      )}
      {columns && <Board parameters={`${parameters}`} listRoute={routeOf(isAll, false)} />}
    </>
  )
}

/** Shows the tasks of one template alone. */
function ByTemplate() {
  const { path, search } = useHere()
  const go = useGo()
  const parameters = new URLSearchParams(search)
  const id = Number(parameters.get(FILTER)) || null
  const { data } = useQuery({ ...page(TEMPLATES, `id=${id}&limit=1`), enabled: id !== null })
  const name = id === null ? '' : `${data?.results[0]?.name ?? `#${id}`}`
  return (
    <div className={look.template}>
      <Chooser
        name={FILTER}
        label={t('task-templates.one.title')}
        isRequired
        autocomplete={TEMPLATES}
        value={id}
        text={name}
        onChange={(choice) => {
          parameters.delete(FILTER)
          parameters.delete('offset')
          if (choice) parameters.set(FILTER, `${choice.value}`)
          const text = `${parameters}`
          go(path + (text && `?${text}`), true)
        }}
      />
    </div>
  )
}

const ASKED = ['task_template', 'name', 'assignees', 'assignee_groups']

/** Makes a task of a template with questions; those that change a record are made at the record. */
function NewTask() {
  const described = useQuery(options(tasks.path))
  const go = useGo()
  const [isOpen, setIsOpen] = useState(false)
  const [values, setValues] = useState<Fields>({})
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const close = () => {
    setIsOpen(false)
    setValues({})
    setError(undefined)
    setIsBusy(false)
  }
  const save = async () => {
    setIsBusy(true)
    try {
      const { data } = await call<Instance>('POST', tasks.path, { body: values })
      await invalidate(tasks.path)
      say(t('created-one', { name: `${data.name}` }))
      close()
      go(`/tasks/${data.id}`)
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  const schema = described.data?.details.schema ?? []
  const fields = ASKED.flatMap((alias) => {
    const field = schema.find((one) => one.alias === alias)
    if (!field) return []
    if (alias !== 'task_template') return [field]
    const autocomplete = `${TEMPLATES}?task_type=tt_form`
    return [{ ...field, type: 'relation', autocomplete, label: t('task-templates.one.title') }]
  })
  return (
    <>
      <Button look="primary" icon="plus" onPress={() => setIsOpen(true)}>
        {t('create-one', { one: t('tasks.one') })}
      </Button>
      {isOpen && described.data && (
        <FormDialog
          title={t('create-one', { one: t('tasks.one') })}
          isWide={false}
          fields={fields}
          sections={[]}
          values={values}
          error={error}
          isBusy={isBusy}
          isChanged={Object.keys(values).length > 0}
          submit={t('create')}
          onChange={(alias, value) => setValues((now) => ({ ...now, [alias]: value }))}
          onSubmit={() => void save()}
          onDone={close}
          above={<p className={css.hint}>{t('tasks.new.hint')}</p>}
        />
      )}
    </>
  )
}
