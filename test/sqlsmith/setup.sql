-- A database for SQLsmith: filters in each state, and values, as tables and columns whose types lead it
-- to the functions of the extension. It works as a role that is no superuser: what it calls can hurt
-- nothing but its own tables.
\set ON_ERROR_STOP on
set client_min_messages = error;
create role smith login;
alter role smith set statement_timeout = '3s';
create database smith owner smith;
\c smith
create extension bloomfilter;
set role smith;
create schema names;
alter database smith set search_path = names, public;
set search_path = names, public;
create table users (id int, username text, created_at timestamptz default now());
insert into users select g, 'user' || g from generate_series(1, 2000) g;
select bloom_create('username_filter', 3000, source => 'select username from names.users');
select bloom_create('empty_filter', 1000, ready => true);
select bloom_create('none_filter', 1000, normalization => 'none', ready => true);
select bloom_create('exact_filter', 1000, normalization => 'username', ready => true);
select bloom_create('unready_filter', 1000);
create table readers (
  id int, seen bloomfilter, other bloomfilter, chunk bit(8192), filter regclass,
  items text[], filters regclass[], capacity float8, fp_rate float8);
insert into readers
select 1, bloom_agg(username, 3000, 0.01, 'lower'), bloom_agg(username || 'x', 3000, 0.01, 'lower'),
       (select bits from username_filter limit 1), 'username_filter', array_agg(username),
       array['username_filter', 'empty_filter']::regclass[], 1000, 0.01
from users;
insert into readers values (2, bloom_empty(100), bloom_value('username_filter'), null,
                            'empty_filter', '{}', '{}', 0, 1);
create table queue (username text);
