# What a release is made with: make dist and tools/version.sh, in a clone.
use strict;
use warnings FATAL => 'all';
use Cwd;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = getcwd();
plan skip_all => 'this tree is not that of the repository' unless -e '.gitattributes';
plan skip_all => 'there is no git' unless eval { run_log([ 'git', '--version' ]) };

my $folder = PostgreSQL::Test::Utils::tempdir();
my $clone = "$folder/clone";
delete @ENV{ 'MAKEFLAGS', 'MAKELEVEL', 'MFLAGS', grep { /^GIT_/ } keys %ENV };
$ENV{GIT_CONFIG_GLOBAL} = '/dev/null';
$ENV{"GIT_${_}_NAME"} = $ENV{"GIT_${_}_EMAIL"} = 'test' for qw(AUTHOR COMMITTER);

# Runs a shell command in the clone. Returns whether it succeeded, and what it printed.
sub in_clone
{
	my ($command) = @_;
	my $output = '';
	chdir $clone or die $!;
	my $ran = IPC::Run::run([ 'sh', '-c', $command ], '<', '/dev/null', '>&', \$output);
	chdir $root or die $!;
	chomp $output;
	return ($ran, $output);
}

# Runs one that has to succeed, and returns what it printed.
sub works
{
	my ($command) = @_;
	my ($ran, $output) = in_clone($command);
	ok($ran, $command) or diag($output);
	return $output;
}

# Runs one that has to fail, with a message.
sub fails
{
	my ($command, $message) = @_;
	my ($ran, $output) = in_clone($command);
	ok(!$ran, "$command fails");
	like($output, $message, 'and says why');
}

# A repository with this tree, built or not, as its first commit.
{
	local @ENV{qw(GIT_DIR GIT_WORK_TREE)} = ("$folder/repository", $root);
	system_or_bail('git', 'init', '-q');
	system_or_bail('git', 'add', '--all');
	system_or_bail('git', 'commit', '-q', '-m', 'first');
}
system_or_bail('git', 'clone', '-q', "$folder/repository", $clone);

my ($version) = slurp_file('bloomfilter.control') =~ /^default_version = '(.*)'/m;
is(works('tools/version.sh'), $version, 'every file has the same version');

# The archive has every file of the commit but what serves the repository, and the build knows its version.
works('make -s dist');
SKIP:
{
	skip 'there is no python3', 5 unless eval { run_log([ 'python3', '--version' ]) };
	works("python3 -m zipfile -e bloomfilter-$version.zip '$folder'");
	is(works("cd '$folder/bloomfilter-$version' && find . -type f | sed 's,^./,,' | LC_ALL=C sort"),
		works(q{git ls-files | grep -vE '^[.](ci|github)/|^[.]git(attributes|ignore)$' | LC_ALL=C sort}),
		'the archive has what the commit has');
	# this program makes no symbolic links
	works("cd '$folder/bloomfilter-$version' && make -s test/expected/ && test -e test/expected/sizing.out");
}
works('echo >>README.md');
fails('make -s dist', qr/README\.md/);
works('git checkout -q README.md');
works('touch new_file');
fails('make -s dist', qr/new_file/);
works('rm new_file');

# A version that was begun as another one: its update script is renamed, too.
my $released = slurp_file('CHANGELOG.md') !~ /^## [^ ]+ \(unreleased\)/m;
works('tools/version.sh 9.8.5') unless $released;
my $old = $released ? $version : '9.8.5';
works('tools/version.sh --next 9.8.6');
works(q{sed -i 's/^## 9.8.6 (unreleased)/&\n\n- What is new./' CHANGELOG.md && git add --all && git commit -q -m next});

# A release: the version in every file, the headings with a date.
fails('tools/version.sh 9.8', qr/not of the form/);
works('tools/version.sh 9.8.7');
is(works('tools/version.sh'), '9.8.7', 'the version of the release');
like(works('grep -m 1 "^## " CHANGELOG.md'), qr/^## 9\.8\.7 \(\d{4}-\d\d-\d\d\)$/, 'its heading');
like(works('head -n 1 debian/changelog'), qr/^bloomfilter \(9\.8\.7-1\) unstable;/, 'its package');
like(works("tools/version.sh --notes"), qr/\A\n- What is new\.\n*\z/, "its notes, without those of others");
is(works('git add --all && git diff --cached --name-only --no-renames | wc -l'), '9', 'and no other file is changed');
like(works("cat sql/bloomfilter--$old--9.8.7.sql"), qr/UPDATE TO '9\.8\.7'/, 'the script that updates to it');
fails('tools/version.sh 9.8.8', qr/no unreleased version/);
works(q{sed -i 's/"version": "9.8.7",/"version": "9.8.6",/' META.json});
fails('tools/version.sh', qr/META\.json has version 9\.8\.6, bloomfilter\.control has 9\.8\.7/);
works(q{sed -i 's/"version": "9.8.6",/"version": "9.8.7",/' META.json});

# The version after it: the install script is kept, and the script that updates from it is installed.
works('tools/version.sh --next 9.9.0');
is(works('tools/version.sh'), '9.9.0', 'the next version');
works('cmp sql/bloomfilter.sql sql/bloomfilter--9.8.7.sql');
like(works('make -n install PG_CONFIG=pg_config'), qr/bloomfilter--9\.8\.7--9\.9\.0\.sql/,
	'its update script is installed');
unlike(works('make -n install PG_CONFIG=pg_config'), qr{sql/bloomfilter--9\.8\.7\.sql},
	'the old install script is not');
like(works('grep "^## " CHANGELOG.md'), qr/^## 9\.9\.0 \(unreleased\)\n## 9\.8\.7 \(/, 'its heading');
fails('tools/version.sh --next 9.9.1', qr/not released yet/);

done_testing();
